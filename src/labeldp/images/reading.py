"""Read images and their labels: NumPy archives, MNIST's format, CIFAR's binary version, folders of images."""

import gzip
import hashlib
import os
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import InputError, UnreadableRows, check_growth, even_if_refused
from labeldp.tables import first_names

SOURCES_NEEDED = (
    "a NumPy archive (.npz), files of MNIST's format, CIFAR's binary version, or a folder of images for each class, "
    "is needed"
)


@final
@dataclass(frozen=True, eq=False)
class LabeledArrays:
    """Features and labels of the same records in the same order.

    Fields:
        features: public; one row or image for each record, shape (n, ...).
        labels: private; as in the file, shape (n,). No repr shows them.
    """

    features: NDArray[Any] = field(repr=False)
    labels: NDArray[Any] = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the features."""
        return self.features.shape

    @even_if_refused
    def __repr__(self) -> str:
        return f"LabeledArrays(features of shape {self.shape}, labels private)"


@final
@dataclass(frozen=True)
class ImageData:
    """The images that `open_images` read.

    Fields:
        train: images, uint8, shape (n, height, width) or (n, height, width, 3), with their labels.
        test: the same for the test part, or None if the source has none. Its labels are as private as the others
            unless they are declared public.
    """

    train: LabeledArrays
    test: LabeledArrays | None


def open_images(path: str | os.PathLike[str], *, label: str = "labels") -> ImageData:
    """Read images and their private labels from local files; nothing is downloaded.

    | path | is read as |
    |---|---|
    | `file.npz` | array `images`, `X` or `x`, and the array `label`; alone, or `train_…` and `test_…` |
    | a folder with `train-images-idx3-ubyte.gz` | MNIST's format, plain or gzip, with the test part `t10k-…` |
    | one such file of images | the same, where a folder holds several data sets: `emnist-letters-train-…` |
    | a folder with `kmnist-train-imgs.npz` | KMNIST's archives, with the test part |
    | a folder with `data_batch_1.bin` or `train.bin` | CIFAR-10 or CIFAR-100, binary version, with the test part |
    | a folder of folders | PNG and JPEG images: `CLASS/…`, or `train/CLASS/…` and `test/CLASS/…` |

    Args:
        path: a file or a folder.
        label: which labels to read if a source has several: an array of an archive, or `coarse_labels` of
            CIFAR-100. All other sources have `labels` only.

    Returns:
        Images as uint8, gray (n, height, width) or colored (n, height, width, 3), and the labels as in the files:
        numbers, or the names of the class folders.

    Guarantee (order, no_pickle):
        Records of an image folder come in an order that depends on their pixels and file names alone. No
        pickle is loaded.

    Raises:
        InputError: the files are missing, damaged or ambiguous, images are not integers from 0 to 255 or not all of
            one size, or there is not one label for each image. No message holds a label or the name of a class folder.

    Example:
        >>> import tempfile, numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/made.npz", images=np.zeros((2, 8, 8), dtype=np.uint8), labels=["cat", "dog"])
        ...     open_images(f"{folder}/made.npz")
        ImageData(train=LabeledArrays(features of shape (2, 8, 8), labels private), test=None)
    """
    location = Path(path)
    is_folder = parse_or_refuse(location, location.is_dir, SOURCES_NEEDED)
    data = _open_folder(location, label) if is_folder else _open_file(location, label)
    if data.test and data.test.shape[1:] != data.train.shape[1:]:
        shapes = f"{data.train.shape[1:]} and {data.test.shape[1:]}"
        raise InputError(f"{path}: training and test images must have one shape; they have {shapes}")
    return data


def open_unlabeled_images(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Read images as `open_images` does, from files that need not have labels.

    Args:
        path: an .npz file with one array of images, a file of MNIST's format, or a folder, whose training part is read.

    Returns:
        Images as `open_images` returns them.

    Raises:
        InputError: as `open_images` does.
    """
    location = Path(path)
    if location.is_file() and IDX_IMAGES.fullmatch(location.name):
        images = _read(location, 3)
    elif location.is_file() and location.suffix.lower() == ".npz":
        images = images_of_archive(location)
    else:
        return open_images(path).train.features
    return labeled_images(images, np.zeros(len(images)), location).features


def names_images(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is for `open_images` and not a table: a folder, or named like a file of images."""
    location = Path(path)
    return location.is_dir() or location.suffix.lower() == ".npz" or bool(IDX_IMAGES.fullmatch(location.name))


def _open_file(path: Path, label: str) -> ImageData:
    if not path.is_file():
        raise InputError(f"no such file or folder: {path}; {SOURCES_NEEDED}")
    if IDX_IMAGES.fullmatch(path.name):
        _require_only(label, path)
        return open_idx(path)
    if path.suffix.lower() == ".npz":
        return open_archive(path, label)
    raise InputError(f"{path} is not named as a file of images; {SOURCES_NEEDED}")


def _open_folder(folder: Path, label: str) -> ImageData:
    if parse_or_refuse(folder, lambda: cifar_batches(folder), SOURCES_NEEDED):
        return open_cifar(folder, label)
    _require_only(label, folder)
    sets = image_files(folder)
    if len(sets) > 1:
        raise InputError(f"{folder} holds several data sets: name one of {', '.join(path.name for path in sets)}")
    return open_idx(sets[0]) if sets else open_image_folder(folder)


def _require_only(label: str, path: Path) -> None:
    if label != "labels":
        raise InputError(f"must be 'labels' for {path}: it has no other labels", argument="label")


Result = TypeVar("Result")
CHUNK_BYTES = 1 << 20
IMAGE_SHAPES = "shape (n, height, width) or (n, height, width, 3), at least one image"


def labeled_images(features: NDArray[Any], labels: NDArray[Any], source: Path) -> LabeledArrays:
    """Check images and labels that were read from `source`, and return them.

    Integers from 0 to 255 become uint8, and shape (n, height, width, 1) becomes (n, height, width). Floats are refused,
    since their scale is unknown.
    """
    if features.ndim == 4 and features.shape[3] == 1:
        features = features[..., 0]
    if not (features.ndim == 3 or (features.ndim == 4 and features.shape[3] == 3)) or 0 in features.shape:
        raise InputError(f"{source}: images must be of {IMAGE_SHAPES}; these are of shape {features.shape}")
    if features.dtype.kind not in "iu" or (features.dtype != np.uint8 and (features.min() < 0 or features.max() > 255)):
        example = "for floats from 0 to 1 that is (255 * images).round().astype('uint8')"
        raise InputError(f"{source}: images must be integers from 0 to 255, best as uint8; {example}")
    count = len(features)
    if labels.shape not in ((count,), (count, 1)):
        raise InputError(f"{source}: labels must be one for each of the {count} images, shape (n,)")
    if labels.dtype.kind not in "biufU":
        raise InputError(f"{source}: labels must be numbers or texts")
    native = labels.reshape(count).astype(labels.dtype.newbyteorder("="), copy=False)
    return LabeledArrays(np.ascontiguousarray(features, dtype=np.uint8), native)


def parse_or_refuse(
    what: object, action: Callable[[], Result], needed: str, refusal: type[InputError] = InputError
) -> Result:
    """Return the result of `action`, which reads `what`; hide the messages of parsers, since they quote the file."""
    try:
        return action()
    except InputError:
        raise
    except OSError as error:
        problem = f"cannot be read: {error.strerror}" if error.errno else None
    except Exception:
        problem = None  # a parser may raise anything on a damaged file, and quotes the file
    raise refusal(f"{what} {problem or f'is damaged, truncated or too large for the memory; {needed}'}")


def fill(stream: BinaryIO, array: NDArray[np.uint8]) -> None:
    """Fill a contiguous array with the rest of a stream, which must be exactly as long, without a second copy."""
    flat = array.reshape(-1).data
    for start in range(0, len(flat), CHUNK_BYTES):
        part = flat[start : start + CHUNK_BYTES]
        part[:] = stream.read(len(part))
    if stream.read(1):
        raise EOFError


IMAGES = ("images", "X", "x")
TRAIN = ("{}", "train_{}", "{}_train")
TEST = ("test_{}", "{}_test")
ARCHIVE_NEEDED = "a NumPy archive (.npz) of plain arrays, as numpy.savez writes it, is needed"


def open_archive(path: Path, label: str) -> ImageData:
    """Return images and labels of an .npz file.

    Images are the array `images`, `X` or `x`, labels the array `label`, either with the prefix `train_` or the suffix
    `_train`. With `test` in place of `train` they are the test part, if there is one.
    """
    train = _part(path, label, TRAIN)
    if train is None:
        raise _unclear(path, label)
    return ImageData(train, _part(path, label, TEST))


def _part(path: Path, label: str, forms: tuple[str, ...]) -> LabeledArrays | None:
    """Return the part whose arrays are named in one of the forms, None if there are none; refuse anything ambiguous."""
    names = array_names(path)
    candidates = [form.format(name) for name in IMAGES for form in forms if name != label]
    images = [name for name in candidates if name in names]
    labels = [name for name in (form.format(label) for form in forms) if name in names]
    if not images and not labels:
        return None
    if (len(images), len(labels)) != (1, 1):
        raise _unclear(path, label)
    return labeled_images(read_array(path, images[0]), read_array(path, labels[0], UnreadableRows), path)


def images_of_archive(path: Path) -> NDArray[Any]:
    """Return the only array of images of an .npz file, unchecked."""
    names = array_names(path)
    files = [name for name in (form.format(name) for name in IMAGES for form in (*TRAIN, *TEST)) if name in names]
    if len(files) != 1:
        raise InputError(
            f"{path} must have one array of images, named {' or '.join(IMAGES)}; it has {', '.join(files) or 'none'}"
        )
    return read_array(path, files[0])


def _unclear(path: Path, label: str) -> InputError:
    return InputError(
        f"{path} must have one array of images, named {' or '.join(IMAGES)}, and one of labels, named {label!r}, or "
        f"both as train_… and test_…; it has {first_names(array_names(path)) or 'none'}"
    )


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays in an archive."""

    def names() -> list[str]:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]

    return parse_or_refuse(path, names, ARCHIVE_NEEDED)


def read_array(path: Path, name: str, refusal: type[InputError] = InputError) -> NDArray[Any]:
    """Return one array of an archive; refuse arrays of Python objects, which would be pickles.

    Args:
        path, name: of the archive and the array in it.
        refusal: the kind of error for an array that cannot be read: of labels, it counts as a rejection.
    """

    def read() -> NDArray[Any]:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
            first = np.lib.format.read_magic(stream) == (1, 0)
            header = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
            shape, _, kind = header(stream)
            if kind.hasobject:
                raise InputError(
                    f"{path}: {name!r} are Python objects, which are not read: save labels with .astype(str)"
                )
            stored = archive.getinfo(f"{name}.npy").compress_size
            check_growth(f"{path}: {name!r}", stored, prod(shape) * kind.itemsize, refusal)
            stream.seek(0)
            array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
            if stream.read(1):  # zipfile checks the checksum at the end of the stream
                raise EOFError
            return array

    return parse_or_refuse(path, read, ARCHIVE_NEEDED, refusal)


IDX_IMAGES = re.compile(
    r"(?P<set>(?:.+?-)??)(?P<part>(?:(?:train|t10k|test)-)?)(?:images[-.]idx3-ubyte(?:\.gz)?|imgs\.npz)"
)

UNSIGNED_BYTES = 8
GZIP_MAGIC = b"\x1f\x8b"


def image_files(folder: Path) -> list[Path]:
    """Return the training images of each data set in a folder; count a file that is there plain and as .gz once."""
    names = {path.name: IDX_IMAGES.fullmatch(path.name) for path in folder.iterdir()}
    files = sorted(name for name, parts in names.items() if parts and parts["part"] == "train-")
    return [folder / name for name in files if not (name.endswith(".gz") and name.removesuffix(".gz") in files)]


def open_idx(images: Path) -> ImageData:
    """Return the data set of a file of training images, with the labels and the test part next to it, named alike.

    Images that are not named `train-…` are read alone, with their labels. Images are as in the file: those of EMNIST
    are transposed.
    """
    name = IDX_IMAGES.fullmatch(images.name)
    if name is None:
        raise InputError(f"{images}: a file of MNIST's format is named as train-images-idx3-ubyte.gz, plain or gzip")
    train = _pair(images)
    if name["part"] != "train-":
        return ImageData(train, None)
    tests = (_beside(images, name["set"] + part + images.name[name.end("part") :]) for part in ("t10k-", "test-"))
    test = next((path for path in tests if path), None)
    return ImageData(train, _pair(test) if test else None)


def _pair(images: Path) -> LabeledArrays:
    name = re.sub(r"images([-.])idx3(?=-ubyte(\.gz)?$)", r"labels\1idx1", images.name)
    name = re.sub(r"imgs(?=\.npz$)", "labels", name)
    labels = _beside(images, name)
    if labels is None:
        raise InputError(f"the labels of {images} must lie next to it, named {name}")
    return labeled_images(_read(images, 3), _read(labels, 1, UnreadableRows), images)


def _beside(path: Path, name: str) -> Path | None:
    """Return the file `name` in the folder of `path`, or the same with or without .gz, if there is one."""
    plain = name.removesuffix(".gz")
    return next((path.with_name(n) for n in (name, plain, f"{plain}.gz") if path.with_name(n).is_file()), None)


def _read(path: Path, dimensions: int, refusal: type[InputError] = InputError) -> NDArray[Any]:
    if path.suffix == ".npz":
        return read_array(path, next(iter(array_names(path)), "arr_0"), refusal)
    needed = f"an idx file of unsigned bytes with {dimensions} dimension{'s' * (dimensions > 1)} is needed"
    return parse_or_refuse(path, lambda: _read_idx(path, dimensions, needed), needed, refusal)


def _read_idx(path: Path, dimensions: int, needed: str) -> NDArray[np.uint8]:
    """Return the array of an idx file: two zero bytes, type, number of dimensions, big-endian sizes, values."""
    with path.open("rb") as file:
        zipped = file.read(2) == GZIP_MAGIC
    with cast(BinaryIO, gzip.open(path)) if zipped else path.open("rb") as stream:
        if stream.read(4) != bytes([0, 0, UNSIGNED_BYTES, dimensions]):
            raise InputError(f"{path} does not begin as it should; {needed}")
        sizes = np.frombuffer(stream.read(4 * dimensions), dtype=">u4").tolist()
        if len(sizes) != dimensions or (not zipped and prod(sizes) > path.stat().st_size):
            raise EOFError
        check_growth(path, path.stat().st_size, prod(sizes))
        array = np.empty(sizes, dtype=np.uint8)
        fill(stream, array)
    return array


CIFAR_SIDE = 32
CIFAR_BYTES = 3 * CIFAR_SIDE * CIFAR_SIDE
LABELS_10 = ("labels",)

LABELS_100 = ("coarse_labels", "labels")
"""The label bytes before the pixels of a record of CIFAR-100; `labels` are the fine ones."""


def cifar_batches(folder: Path) -> list[Path]:
    """Return CIFAR's training files in a folder, in order; the Python version has one."""
    names = [path for path in folder.iterdir() if re.fullmatch(r"data_batch_\d+\.bin|train\.bin", path.name)]
    pickles = [path for name in ("data_batch_1", "train") if (path := folder / name).is_file()]
    return sorted(names, key=lambda path: (len(path.name), path.name)) or pickles


def open_cifar(folder: Path, label: str) -> ImageData:
    """Return images and labels of a folder with data_batch_1.bin and so on (CIFAR-10), or train.bin (CIFAR-100).

    The Python version is refused: it consists of pickles, which may run any code when they are read.
    """
    train = cifar_batches(folder)
    if not train[0].suffix:
        raise InputError(
            f"{folder} holds CIFAR's Python version, pickles that may run code when they are read; "
            "get the binary version, whose files end in .bin"
        )
    if len({path.name == "train.bin" for path in train}) > 1:
        raise InputError(f"{folder} holds CIFAR-10 and CIFAR-100; keep each in a separate folder")
    of_100 = train[0].name == "train.bin"
    columns = LABELS_100 if of_100 else LABELS_10
    if label not in columns:
        raise InputError(f"must be {' or '.join(map(repr, columns))} for {folder}", argument="label")
    test = folder / ("test.bin" if of_100 else "test_batch.bin")
    position = (columns.index(label), len(columns))
    return ImageData(_cifar_part(train, *position), _cifar_part([test], *position) if test.is_file() else None)


def _cifar_part(files: Sequence[Path], column: int, columns: int) -> LabeledArrays:
    """Return the records of some files, with the label in `column` of the first `columns` bytes."""
    length = columns + CIFAR_BYTES

    def read(path: Path) -> NDArray[np.uint8]:
        return np.fromfile(path, dtype=np.uint8).reshape(-1, length)

    needed = f"a file of records of {length} bytes is needed"
    records = [parse_or_refuse(path, partial(read, path), needed) for path in files]
    count = sum(map(len, records))
    images = np.empty((count, CIFAR_SIDE, CIFAR_SIDE, 3), dtype=np.uint8)
    start = 0
    for part in records:
        planes = part[:, columns:].reshape(-1, 3, CIFAR_SIDE, CIFAR_SIDE)
        images[start : start + len(part)] = planes.transpose(0, 2, 3, 1)
        start += len(part)
    return labeled_images(images, np.concatenate([part[:, column] for part in records]), files[0].parent)


SUFFIXES = (".png", ".jpg", ".jpeg")
GRAY = ("1", "L")
COLOR = ("RGB", "RGBA", "P")
FOLDER_NEEDED = "8-bit PNG or JPEG files, gray or RGB, are needed"


def open_image_folder(folder: Path) -> ImageData:
    """Return images of `folder/CLASS/…`, or of `folder/train/CLASS/…` and, if it exists, `folder/test/CLASS/…`.

    The name of a class folder is the label of its images. Records are ordered by a digest of their pixels: in the
    order of folders, a row's number would tell its label. Files that are not named as images are ignored. Images are
    gray if all of them are, else RGB.
    """
    train, test = folder / "train", folder / "test"
    if not train.is_dir():
        return ImageData(_folder_part(folder), None)
    return ImageData(_folder_part(train), _folder_part(test) if test.is_dir() else None)


def _folder_part(folder: Path) -> LabeledArrays:
    """Return the images of all class folders. No message names a file: its path holds the label."""
    files = parse_or_refuse(folder, lambda: _files(folder), FOLDER_NEEDED)
    if not files:
        raise InputError(
            f"{folder} holds nothing to read: files of MNIST's format, CIFAR's binary version, or folders of PNG or "
            "JPEG images, one for each class, are needed"
        )
    images, problems = [], []
    for file in files:  # by class: the first one that cannot be read would tell which class comes first
        try:
            images.append(_pixels(file, folder))
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError(min(problems))
    if len({image.shape[:2] for image in images}) > 1:
        raise InputError(f"the images in {folder} must all have the same height and width")
    if len({image.ndim for image in images}) > 1:
        images = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in images]
    keys = [(hashlib.sha256(image.tobytes()).digest(), file.name) for image, file in zip(images, files, strict=True)]
    if len(set(keys)) < len(keys):
        raise InputError(f"{folder} holds an image twice under one file name; each needs one class, or its own name")
    order = sorted(range(len(keys)), key=keys.__getitem__)
    labels = np.array([files[i].parent.name for i in order])
    return labeled_images(np.stack([images[i] for i in order]), labels, folder)


def _files(folder: Path) -> list[Path]:
    """Return the image files of all class folders, without hidden ones."""
    classes = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    files = [file for directory in classes for file in directory.iterdir() if file.suffix.lower() in SUFFIXES]
    return [file for file in files if file.is_file() and not file.name.startswith(".")]


def _pixels(file: Path, folder: Path) -> NDArray[np.uint8]:
    """Return one image, shape (height, width) or (height, width, 3)."""

    def read() -> Any:
        from PIL import Image

        with Image.open(file, formats=("PNG", "JPEG")) as image:
            if image.mode not in GRAY + COLOR:
                raise ValueError
            opaque = image.convert("RGBA") if image.mode == "P" else image
            return np.asarray(opaque.convert("L" if image.mode in GRAY else "RGB"))

    size = parse_or_refuse(folder, lambda: file.stat().st_size, FOLDER_NEEDED)
    return parse_or_refuse(f"an image of {size} bytes in {folder}", read, FOLDER_NEEDED)
