"""Images in: every format."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labeldp.tables import LabeledArrays, open_images
from tables.image_files import CODE, CODES, COLOR, GRAY, SECRET, archive, cifar, class_folders, idx, mnist, rng

DATA = Path(os.environ.get("LABELDP_DATA", Path(__file__).parents[3] / "shared" / "data"))


def check(part: LabeledArrays | None, features: np.ndarray, labels: np.ndarray) -> None:
    assert part is not None
    assert part.features.dtype == np.uint8 and part.features.flags.writeable and part.features.flags.c_contiguous
    np.testing.assert_array_equal(part.features, features)
    np.testing.assert_array_equal(part.labels, labels)


@pytest.mark.parametrize(
    "settings", [{}, {"dot": True, "zipped": False}, {"prefix": "emnist-letters-", "test": "test"}]
)
def test_a_folder_of_mnist_files(tmp_path: Path, settings: dict) -> None:
    data = open_images(mnist(tmp_path, **settings))
    check(data.train, GRAY, CODES)
    check(data.test, GRAY[:2], CODES[:2])


def test_files_that_are_there_plain_and_compressed_are_read_once(tmp_path: Path) -> None:
    mnist(mnist(tmp_path), zipped=False)
    check(open_images(tmp_path).train, GRAY, CODES)


def test_one_data_set_of_several_in_a_folder_is_named_by_its_training_images(tmp_path: Path) -> None:
    mnist(mnist(tmp_path, "emnist-letters-"), "emnist-digits-")
    data = open_images(tmp_path / "emnist-digits-train-images-idx3-ubyte.gz")
    check(data.train, GRAY, CODES)
    check(data.test, GRAY[:2], CODES[:2])


def test_a_pair_of_other_names_stands_alone(tmp_path: Path) -> None:
    mnist(tmp_path)
    data = open_images(tmp_path / "t10k-images-idx3-ubyte.gz")
    check(data.train, GRAY[:2], CODES[:2])
    assert data.test is None
    (tmp_path / "images.idx3-ubyte").write_bytes(idx(GRAY))
    (tmp_path / "labels.idx1-ubyte.gz").write_bytes(gzip.compress(idx(CODES)))
    check(open_images(tmp_path / "images.idx3-ubyte").train, GRAY, CODES)


def test_the_archives_of_kmnist(tmp_path: Path) -> None:
    for part, n in (("train", 6), ("test", 2)):
        archive(tmp_path / f"kmnist-{part}-imgs.npz", arr_0=GRAY[:n])
        archive(tmp_path / f"kmnist-{part}-labels.npz", arr_0=CODES[:n])
    for path in (tmp_path, tmp_path / "kmnist-train-imgs.npz"):
        check(open_images(path).train, GRAY, CODES)
        check(open_images(path).test, GRAY[:2], CODES[:2])


@pytest.mark.parametrize("name", ["images", "X", "x"])
@pytest.mark.parametrize("forms", [("{}", "test_{}"), ("train_{}", "{}_test"), ("{}_train", "{}_test")])
def test_an_archive(tmp_path: Path, name: str, forms: tuple[str, str]) -> None:
    train, test = forms
    arrays = {train.format(name): GRAY, train.format("diagnosis"): CODES, "other": np.zeros(3)}
    data = open_images(archive(tmp_path / "a.npz", **arrays), label="diagnosis")
    check(data.train, GRAY, CODES)
    assert data.test is None
    arrays |= {test.format(name): GRAY[:2], test.format("diagnosis"): CODES[:2]}
    check(open_images(archive(tmp_path / "b.npz", **arrays), label="diagnosis").test, GRAY[:2], CODES[:2])


def test_integers_become_bytes_and_a_single_channel_goes(tmp_path: Path) -> None:
    texts = np.array([SECRET, "none"] * 3)
    columns = archive(tmp_path / "a.npz", images=GRAY[..., None].astype(">i8"), labels=texts[:, None])
    check(open_images(columns).train, GRAY, texts)
    swapped = archive(tmp_path / "b.npz", images=COLOR, labels=CODES.astype(">f8"))
    check(open_images(swapped).train, COLOR, CODES)
    assert open_images(swapped).train.labels.dtype == np.dtype("=f8")


def test_cifar_10_and_100(tmp_path: Path) -> None:
    data = open_images(cifar(tmp_path / "10"))
    check(data.train, COLOR[[0, 1, 2, 3, 4, 5]], CODES)
    check(data.test, COLOR[:2], CODES[:2])
    hundred = cifar(tmp_path / "100", columns=2)
    check(open_images(hundred).test, COLOR[:2], CODES[:2])
    check(open_images(hundred, label="coarse_labels").train, COLOR, np.zeros(6))
    (hundred / "test.bin").unlink()
    assert open_images(hundred).test is None


def by_pixels(data: LabeledArrays) -> dict[bytes, str]:
    return {image.tobytes(): str(label) for image, label in zip(data.features, data.labels, strict=True)}


def test_folders_of_images(tmp_path: Path) -> None:
    class_folders(tmp_path / "flat")
    (tmp_path / "flat" / ".cache").mkdir()
    (tmp_path / "flat" / ".cache" / "thumb.png").write_bytes(b"x")
    (tmp_path / "flat" / f"{SECRET}-{CODE}" / "notes.txt").write_text("x")
    expected = {image.tobytes(): f"{SECRET}-{code}" for image, code in zip(GRAY, CODES, strict=True)}
    assert by_pixels(open_images(tmp_path / "flat").train) == expected
    class_folders(tmp_path / "split" / "train", COLOR)
    class_folders(tmp_path / "split" / "test", COLOR[:2], CODES[:2])
    data = open_images(tmp_path / "split")
    assert (data.train.shape, data.test and data.test.shape) == ((6, 32, 32, 3), (2, 32, 32, 3))


def test_gray_images_among_colored_ones_become_colored(tmp_path: Path) -> None:
    class_folders(tmp_path, COLOR)
    gray = COLOR[0, ..., 0]
    Image.fromarray(gray).save(tmp_path / f"{SECRET}-0" / "gray.PNG")
    Image.fromarray(gray).convert("P").save(tmp_path / f"{SECRET}-1" / "palette.png", transparency=b"\0" * 9)
    Image.fromarray(COLOR[1]).save(tmp_path / f"{SECRET}-1" / "photo.jpeg")
    features = open_images(tmp_path).train.features
    assert features.shape == (9, 32, 32, 3)
    assert sum(np.array_equal(image, np.repeat(gray[..., None], 3, axis=2)) for image in features) == 2


def test_the_order_of_an_image_folder_says_nothing_of_its_labels(tmp_path: Path) -> None:
    """Records of an image folder come in an order that depends on their pixels and file names alone."""
    first = open_images(class_folders(tmp_path / "a")).train
    second = open_images(class_folders(tmp_path / "b", labels=CODES[::-1])).train
    np.testing.assert_array_equal(first.features, second.features)
    images = rng.integers(0, 256, (60, 4, 4), dtype=np.uint8)
    labels = open_images(class_folders(tmp_path / "c", images, np.arange(60) // 30)).train.labels
    assert 15 < (labels[:-1] == labels[1:]).sum() < 45  # 58 in the order of the folders
    twins = np.stack([GRAY[0]] * 4)
    named = [open_images(class_folders(tmp_path / name, twins, y)).train.labels for name, y in TWINS.items()]
    assert [[label[-1] for label in labels] for labels in named] == [["1", "0", "1", "0"], ["0", "1", "0", "1"]]


TWINS = {"d": np.array([1, 0, 1, 0]), "e": np.array([0, 1, 0, 1])}


def test_no_repr_shows_a_label(tmp_path: Path) -> None:
    data = open_images(archive(tmp_path / "a.npz", images=GRAY, labels=[SECRET] * 6))
    assert repr(data) == "ImageData(train=LabeledArrays(features of shape (6, 4, 5), labels private), test=None)"


@pytest.mark.skipif(not (DATA / "mnist").is_dir(), reason="the real data is not here")
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_the_real_ones(name: str) -> None:
    data = open_images(DATA / name)
    assert data.test and (data.train.shape, data.test.shape) == ((60_000, 28, 28), (10_000, 28, 28))
    assert np.bincount(data.test.labels).sum() == 10_000 and len(np.unique(data.train.labels)) == 10
    assert (data.train.features.mean() > 33) and data.train.labels.dtype == np.uint8
