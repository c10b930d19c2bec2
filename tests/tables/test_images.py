"""Images in: every format."""

import gzip
import io
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.fit import fit_file, fit_request
from labeldp.images import ImageData, LabeledArrays, open_images
from labeldp.privacy import InputError, UnreadableRows
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


@pytest.mark.guarantee("labeldp.images:open_images", "order")
def test_the_order_of_an_image_folder_says_nothing_of_its_labels(tmp_path: Path) -> None:
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


def refusal(path: Path, label: str = "labels") -> str:
    """What the one error says, with nothing private on it or behind it."""
    with pytest.raises(InputError) as caught:
        open_images(path, label=label)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert str(path) in str(caught.value)
    said = str(caught.value).replace(str(path.parent), "")  # The folder of a test run has numbers of its own.
    assert SECRET not in said and str(CODE) not in said
    return str(caught.value)


@pytest.mark.guarantee("labeldp.images:open_images", "no_pickle")
def test_no_pickle_is_loaded(tmp_path: Path) -> None:
    objects = np.array([Trap()], dtype=object)
    path = archive(tmp_path / "a.npz", images=GRAY[:1], labels=objects)
    assert "'labels' are Python objects, which are not read: save labels with .astype(str)" in refusal(path)
    for name in ("data_batch_1", "train"):
        (tmp_path / name / name).parent.mkdir()
        (tmp_path / name / name).write_bytes(pickle.dumps(Trap()))
        assert "get the binary version" in refusal(tmp_path / name)


class Trap:
    """Whoever unpickles one fails the test."""

    def __reduce__(self) -> tuple[Callable, tuple]:
        return pytest.fail, ("a pickle was loaded",)


def test_contradicting_copies_of_an_image_are_refused(tmp_path: Path) -> None:
    for label in (0, 1):
        class_folders(tmp_path, GRAY[:1], np.array([label]))
    assert "twice under one file name" in refusal(tmp_path)


def test_several_data_sets_in_a_folder_are_listed(tmp_path: Path) -> None:
    mnist(mnist(tmp_path, "emnist-letters-"), "emnist-digits-")
    assert "emnist-digits-train-images-idx3-ubyte.gz, emnist-letters-" in refusal(tmp_path)


BAD_ARCHIVES = {
    "floats": ({"images": GRAY / 255, "labels": CODES}, "integers from 0 to 255"),
    "missing": ({"images": np.full((6, 4, 5), np.nan), "labels": CODES}, "integers from 0 to 255"),
    "too-bright": ({"images": GRAY.astype(int) + 1000, "labels": CODES}, "integers from 0 to 255"),
    "negative": ({"images": GRAY.astype(int) - 1000, "labels": CODES}, "integers from 0 to 255"),
    "rows": ({"images": GRAY.reshape(6, 20), "labels": CODES}, "these are of shape (6, 20)"),
    "channels-first": ({"images": COLOR.transpose(0, 3, 1, 2), "labels": CODES}, "these are of shape (6, 3, 32, 32)"),
    "none": ({"images": GRAY[:0], "labels": CODES[:0]}, "at least one image"),
    "fewer-labels": ({"images": GRAY, "labels": CODES[:5]}, "one for each of the 6 images"),
    "one-hot": ({"images": GRAY, "labels": np.eye(6)}, "one for each of the 6 images"),
    "scalar": ({"images": GRAY, "labels": 3}, "one for each of the 6 images"),
    "raw": ({"images": GRAY, "labels": CODES.astype("S3")}, "numbers or texts"),
    "dates": ({"images": GRAY, "labels": CODES.astype("M8[s]")}, "numbers or texts"),
    "no-labels": ({"images": GRAY, "y": CODES}, "it has 'images', 'y'"),
    "no-images": ({"pixels": GRAY, "labels": CODES}, "it has 'pixels', 'labels'"),
    "two-images": ({"X": GRAY, "x": GRAY, "labels": CODES}, "it has 'X', 'x', 'labels'"),
    "two-labels": ({"X": GRAY, "labels": CODES, "train_labels": CODES}, "it has 'X', 'labels', 'train_labels'"),
    "test-alone": ({"X": GRAY, "labels": CODES, "test_X": GRAY}, "it has 'X', 'labels', 'test_X'"),
    "sizes": ({"X": GRAY, "labels": CODES, "X_test": COLOR, "labels_test": CODES}, "must have one shape"),
    "many": ({"X": GRAY} | {f"a{i}": CODES for i in range(30)}, "and 19 more"),
    "empty": ({}, "it has none"),
}


@pytest.mark.parametrize("name", BAD_ARCHIVES)
def test_an_archive_is_refused(tmp_path: Path, name: str) -> None:
    arrays, message = BAD_ARCHIVES[name]
    assert message in refusal(archive(tmp_path / "a.npz", **arrays))


def test_images_are_not_taken_for_labels(tmp_path: Path) -> None:
    assert "it has 'X'" in refusal(archive(tmp_path / "a.npz", X=GRAY), label="X")


def bad_mnist(tmp_path: Path, name: str, content: bytes) -> str:
    folder = mnist(tmp_path / "bad")
    (folder / f"{name}-ubyte.gz").write_bytes(content)
    return refusal(folder)


@pytest.mark.parametrize("name", ["train-images-idx3", "train-labels-idx1", "t10k-labels-idx1"])
@pytest.mark.parametrize(
    "change",
    [
        lambda good: b"",
        lambda good: gzip.compress(b""),
        lambda good: gzip.compress(good)[:-9],
        lambda good: gzip.compress(good)[:-8] + bytes(8),
        lambda good: gzip.compress(good[:-1]),
        lambda good: good + b"\0",
        lambda good: good[:6],
        lambda good: gzip.compress(good[:6]),
        lambda good: b"\0\0\x0d" + good[3:],
        lambda good: good[:3] + b"\2" + good[4:],
        lambda good: good[:4] + b"\xff" * 4 + good[8:],
        lambda good: gzip.compress(good[:4] + b"\xff" * 4 + good[8:]),
    ],
)
def test_a_damaged_idx_file_is_refused(tmp_path: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    n = 2 if name.startswith("t10k") else 6
    message = bad_mnist(tmp_path, name, change(idx(GRAY[:n] if "images" in name else CODES[:n])))
    assert f"{name}-ubyte.gz" in message
    assert "an idx file of unsigned bytes" in message or "would grow beyond" in message


def test_files_of_mnists_format_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    assert "one for each of the 6 images" in bad_mnist(tmp_path, "train-labels-idx1", idx(CODES[:5]))
    folder = mnist(tmp_path / "alone")
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    assert "must lie next to it, named train-labels-idx1-ubyte.gz" in refusal(folder)
    assert "it has no other labels" in refusal(folder, label="diagnosis")
    assert "it has no other labels" in refusal(folder / "train-images-idx3-ubyte.gz", label="diagnosis")


def test_damaged_files_of_cifar_are_refused(tmp_path: Path) -> None:
    folder = cifar(tmp_path / "10")
    assert "label must be 'labels'" in refusal(folder, label="fine")
    (folder / "data_batch_2.bin").write_bytes(bytes(3000))
    assert "data_batch_2.bin is damaged" in refusal(folder) and "3073 bytes" in refusal(folder)
    for file in folder.iterdir():
        file.write_bytes(b"")
    assert "at least one image" in refusal(folder)
    assert "keep each in a separate folder" in refusal(cifar(folder, columns=2))


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "png")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (png(GRAY[0].T.copy()), "the same height and width"),
        (png(GRAY[0].astype(np.uint16)), "8-bit PNG or JPEG"),
        (png(GRAY[0])[:-30], "8-bit PNG or JPEG"),
        (b"", "an image of 0 bytes in"),
        (b"GIF89a" + bytes(40), "an image of 46 bytes in"),
    ],
)
def test_an_image_folder_is_refused_without_naming_a_class(tmp_path: Path, content: bytes, message: str) -> None:
    written(class_folders(tmp_path) / f"{SECRET}-{CODE}" / f"{SECRET}.png", content)
    assert message in refusal(tmp_path)


def test_of_several_images_that_cannot_be_read_the_message_does_not_follow_their_classes(tmp_path: Path) -> None:
    """The first class folder with one would tell which class of two images comes first."""
    said = set()
    for number, (first, second) in enumerate(((b"broken", b"broken too"), (b"broken too", b"broken"))):
        folder = tmp_path / str(number)
        for name, content in (("cat", first), ("dog", second)):
            written(folder / name / f"{len(content)}.png", content)
            written(folder / name / "good.png", png(GRAY[0] if name == "cat" else GRAY[1]))
        said.add(refusal(folder).replace(str(folder), ""))
    assert len(said) == 1


@pytest.mark.parametrize("name", ["a.npz", "mnist"])
def test_labels_of_images_that_cannot_be_read_count_as_a_rejection(tmp_path: Path, name: str) -> None:
    ledger = LedgerFile(tmp_path / "l.ledger")
    ledger.add("images", ldp.Budget(1), ldp.Classes(10))
    if name == "a.npz":  # texts of equal size: their longest one is what grows
        np.savez_compressed(
            tmp_path / name, images=np.zeros((200, 4, 4), np.uint8), labels=["0"] * 199 + ["1" * 400_000]
        )
    else:
        mnist(tmp_path / name)
        path = tmp_path / name / "train-labels-idx1-ubyte.gz"
        path.write_bytes(path.read_bytes()[:-3])
    request = fit_request("labels", ldp.Classes(10), 1.0, 0.0, "images")
    with pytest.raises(UnreadableRows):
        fit_file(request, str(tmp_path / name), ledger=str(tmp_path / "l.ledger"), out=str(tmp_path / "model"))
    assert ledger.dataset("images").read().domains[0].refused == 1


def test_what_is_nothing_of_all_this_is_refused(tmp_path: Path) -> None:
    assert "no such file or folder" in refusal(tmp_path / "absent")
    assert "holds nothing to read" in refusal(tmp_path)
    (tmp_path / SECRET).mkdir()
    assert "holds nothing to read" in refusal(tmp_path)
    assert "not named as a file of images" in refusal(written(tmp_path / "t.csv", b"a,b\n1,2\n"))
    for content in (b"", b"PK", bytes(100), pickle.dumps(3)):
        assert "a NumPy archive (.npz) of plain arrays" in refusal(written(tmp_path / "a.npz", content))
    os.mkfifo(tmp_path / "pipe.npz")
    assert "no such file or folder" in refusal(tmp_path / "pipe.npz")


def test_an_archive_that_claims_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 50, 4, 4)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as target:
        target.writestr("images.npy", header.getvalue() + bytes(64))
        target.writestr("labels.npy", header.getvalue())
    assert "would grow beyond" in refusal(tmp_path / "a.npz")


def targets(folder: Path) -> list[tuple[Path, Path]]:
    """What to open, and the file in it that is going to be damaged."""
    np.savez(folder / "plain.npz", images=GRAY, labels=CODES)
    archive(folder / "a.npz", images=GRAY, labels=CODES)
    mnist(folder / "gz"), mnist(folder / "plain", zipped=False), cifar(folder / "cifar"), class_folders(folder / "png")
    class_folders(folder / "jpg", COLOR, suffix=".jpg")
    inside = ["gz/train-labels-idx1-ubyte.gz", "plain/train-images-idx3-ubyte", "cifar/data_batch_2.bin"]
    inside += [f"png/{SECRET}-0/1.png", f"jpg/{SECRET}-0/1.jpg"]
    return [(folder / name, folder / name) for name in ("plain.npz", "a.npz")] + [
        (folder / name.split("/")[0], folder / name) for name in inside
    ]


@pytest.mark.parametrize("which", range(7))
def test_no_damage_gives_anything_but_images_or_one_error(tmp_path: Path, which: int) -> None:
    path, file = targets(tmp_path)[which]
    whole = file.read_bytes()

    @settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.integers(0, len(whole) - 1), st.binary(min_size=0, max_size=6), st.integers(0, 8), st.booleans())
    def damage(start: int, put: bytes, cut: int, keep_tail: bool) -> None:
        file.write_bytes(whole[:start] + put + (whole[start + cut :] if keep_tail else b""))
        try:
            assert isinstance(open_images(path), ImageData)
        except InputError as error:
            assert SECRET not in str(error) and error.__context__ is None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        damage()
