"""What a model directory holds, for people who check models before these leave."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from labeldp.fit import (
    CERTIFICATE,
    CERTIFIED,
    ESTIMATOR,
    TRUSTED,
    read_schema,
    skops_io,
)
from labeldp.privacy import InputError
from labeldp.releases import Check
from labeldp.tables import file_digest

PLAIN = {
    *("builtins.NoneType", "builtins.bool", "builtins.bytes", "builtins.dict", "builtins.float", "builtins.int"),
    *("builtins.list", "builtins.set", "builtins.slice", "builtins.str", "builtins.tuple", "numpy.bool", "numpy.dtype"),
    *("numpy.float32", "numpy.float64", "numpy.int32", "numpy.int64", "numpy.ndarray"),
}
"""Types of plain values, which skops loads."""

LOADERS = {
    *("DTypeNode", "DictNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode", "SliceNode", "TreeNode"),
    *("TupleNode", "TypeNode"),
}
"""How skops loads values and estimators: no function, method or code is among them."""

ESTIMATORS = re.compile(r"sklearn\.(?!externals|utils)[a-z_.]+\.[A-Z]\w+")
"""Names of estimators of scikit-learn, which skops loads."""


@dataclass(frozen=True)
class HeldFile:
    """A file: its name, its bytes and its SHA-256. A link has neither, and is not followed."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class HeldType:
    """A class or function that an estimator is made of.

    Args:
        name: with its module.
        trusted: whether labeldp loads it.
    """

    name: str
    trusted: bool


@dataclass(frozen=True)
class Contents:
    """Files of a model, and the types in its estimator; nothing of it is run or loaded.

    Args:
        files: by name.
        types: of the estimator in `model.skops`, by name.
    """

    files: tuple[HeldFile, ...]
    types: tuple[HeldType, ...]

    @classmethod
    def of(cls, path: str) -> "Contents | None":
        """List what a directory that `fit` wrote holds; return None for anything else.

        Raises:
            InputError: the estimator is damaged.
        """
        root = Path(path)
        if not (root / CERTIFICATE).is_file():
            return None
        files = [file for file in sorted(root.rglob("*")) if file.is_symlink() or file.is_file()]
        held = tuple(_held(file, file.relative_to(root).as_posix()) for file in files)
        return cls(held, _types(root / ESTIMATOR) if (root / ESTIMATOR).is_file() else ())

    def check(self) -> Check | None:
        """Return whether labeldp loads all types of the estimator; None without any type."""
        refused = [kind.name for kind in self.types if not kind.trusted]
        if refused:
            return Check(False, f"{ESTIMATOR} holds types that labeldp does NOT load: {', '.join(refused)}.")
        return Check(True, f"labeldp loads all {len(self.types)} types in {ESTIMATOR}.") if self.types else None

    def __str__(self) -> str:
        """Return a line for each file and each type."""
        width = max(len(file.name) for file in self.files)
        rows = [
            f"  {file.name:<{width}}  {f'{file.bytes:,} bytes':>18}  SHA-256 {file.sha256}"
            if file.sha256
            else f"  {file.name:<{width}}  a link, not followed"
            for file in self.files
        ]
        types = [f"  {kind.name}{'' if kind.trusted else '  NOT loaded by labeldp'}" for kind in self.types]
        return "\n".join(["Files:", *rows, *([f"Types in {ESTIMATOR}:", *types] if types else [])])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def check_coverage(path: str, signed: Check) -> list[Check]:
    """Return an unverified check for each file of a model that neither its certificate nor a valid signature covers."""
    root = Path(path)
    if signed.holds or not (root / CERTIFICATE).is_file():
        return []
    files = [file for file in sorted(root.rglob("*")) if file.is_symlink() or file.is_file()]
    names = [file.relative_to(root).as_posix() for file in files]
    extra = [name for name in names if name not in (*CERTIFIED, CERTIFICATE)]
    return [Check(None, f"{name!r} is not covered by the certificate: remove it.") for name in extra]


def _held(file: Path, name: str) -> HeldFile:
    if file.is_symlink():
        return HeldFile(name, 0, "")
    return HeldFile(name, file.stat().st_size, file_digest(file) or "")


def _types(path: Path) -> tuple[HeldType, ...]:
    """Return the types in an estimator of skops, as its schema names them."""
    content = path.read_bytes()
    try:
        loaders = _named(read_schema(content))
        names = set(loaders)
        unknown = {name for name in names - TRUSTED if not (name in PLAIN or ESTIMATORS.fullmatch(name))}
        unknown |= {name for name in names - TRUSTED if not loaders[name] <= LOADERS}
        if unknown:  # only then are skops and scikit-learn imported
            unknown = set(skops_io().get_untrusted_types(data=content))
    except InputError:
        raise
    except (BadZipFile, KeyError, ValueError, TypeError, AttributeError, OSError, NotImplementedError) as error:
        raise InputError(f"{path} is damaged: it is no estimator of skops") from error
    return tuple(HeldType(name, name in TRUSTED or name not in unknown) for name in sorted(names | unknown))


def _named(schema: Any) -> dict[str, set[str]]:
    """Return the types of all nodes of a schema, with what loads them."""
    loaders: dict[str, set[str]] = {}
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if isinstance(node.get("__class__"), str) and isinstance(node.get("__module__"), str):
                name = f"{node['__module__']}.{node['__class__']}"
                loaders.setdefault(name, set()).add(str(node.get("__loader__")))
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return loaders
