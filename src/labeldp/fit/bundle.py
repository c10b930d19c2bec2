"""A model on disk: its estimator in skops' format, its description, and the certificate that covers both."""

import hashlib
import json
import os
import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from labeldp import encoders
from labeldp.learners import LEARNERS, imported
from labeldp.mechanisms import Domain
from labeldp.privacy import Certificate, InputError, Public, check_growth, checked_certificate, json_value
from labeldp.tables import TableEncoder, atomic_write, file_digest

if TYPE_CHECKING:
    from labeldp.learners import Model

FORMAT = 1

CERTIFICATE = "certificate.json"
"""The certificate of a model, with digests of its files."""
DESCRIPTION = "model.json"
"""What a bundle says of its model."""
ESTIMATOR = "model.skops"
"""The fitted estimator."""
REPORT = "report.html"
SUMMARY = "summary.json"
"""What the report shows."""

CERTIFIED = (DESCRIPTION, ESTIMATOR, REPORT, SUMMARY)
"""The files that a certificate covers."""

REMEDY = "Restore it from the original, or run the same fit again into a new directory: that is free"

SCHEMA = "schema.json"
"""What skops calls the description of all objects in its archive."""

UNIX = 3
"""The system that members of an archive say they come from."""

SHARED = {
    "functools": "partial",
    "numpy": "dtype",
    "labeldp.mechanisms.domains": "Classes Interval",
    "labeldp.learners.cells.clusters": "KMeansPartition TreePartition",
    "labeldp.learners.cells.partitions": "CubePartition MedianPartition",
    "sklearn.utils.validation": "check_array",
}
"""Classes that bundles hold beside those of one `--model`: of all models, and of cells that a program cuts."""

_MODULES = [SHARED, *(entry.stores for entry in LEARNERS.values())]

TRUSTED = frozenset(
    f"{module}.{name}" for modules in _MODULES for module, names in modules.items() for name in names.split()
)
"""Beyond what skops trusts, what models are made of. A file with any other is refused."""


UNUSED = "pytest", *(f"sklearn.externals.array_api_compat.{name}" for name in ("cupy", "dask", "torch"))
"""What skops would import, and no bundle needs: pytest, and packages in scikit-learn that import an array library."""


@dataclass(frozen=True)
class Bundle:
    """A model with the encoder of its features, or the shape of its images."""

    model: "Model"
    encoder: "TableEncoder | encoders.ImageShape | encoders.NetworkFeatures"

    def write(self, folder: Path) -> None:
        """Write the estimator and its description into a folder."""
        with atomic_write(folder / ESTIMATOR, overwrite=True) as hidden:
            hidden.write_bytes(_dumped(self.model.estimator))
        noise = None if self.model.noise is None else self.model.noise.tolist()
        domain = self.model.domain
        labels = domain.to_json() if domain.target == "classes" else {"range": domain.to_json()}
        description = {"format": FORMAT, **labels, "noise": noise, "features": self.encoder.to_json()}
        write_json(folder / DESCRIPTION, description)

    def is_in(self, folder: Path) -> bool:
        """Return whether a folder holds this estimator."""
        return (folder / ESTIMATOR).read_bytes() == _dumped(self.model.estimator)

    @classmethod
    def read(cls, folder: Path) -> "Bundle":
        """Read what `write` wrote, after its certificate was checked.

        Raises:
            InputError: not a directory of ours, changed since it was certified, or with types that are not trusted.
        """
        _, changed = read_certified(folder)
        if changed:
            raise InputError(f"{folder} is not what was certified: {', '.join(changed)} changed. {REMEDY}")
        return cls._described(folder / DESCRIPTION, _load_estimator(folder / ESTIMATOR))

    @classmethod
    def _described(cls, path: Path, estimator: Any) -> "Bundle":
        """Return a loaded estimator with what the description at `path` says of it."""
        from labeldp.learners import Model

        content = read_json(path)
        if content.get("format") != FORMAT:
            raise InputError(f"{path} is damaged or of another version of labeldp")
        try:
            noise = None if content["noise"] is None else np.array(content["noise"], dtype=np.float64)
            if noise is not None and (noise.ndim != 2 or not np.isfinite(noise).all()):
                raise ValueError
            model = Model(Domain.from_json(content.get("range", content)), estimator, noise)
            described = content["features"]
            kind: Any = TableEncoder  # the others are imported where one is named
            if "images" in described or "network" in described:
                kind = encoders.ImageShape if "images" in described else encoders.NetworkFeatures
            bundle = cls(model, kind.from_json(described))
            if isinstance(bundle.encoder, TableEncoder):
                columns = len(bundle.encoder.columns)
                if getattr(estimator, "n_features_in_", columns) != columns:
                    raise ValueError
            return bundle
        except (KeyError, TypeError, ValueError, ArithmeticError):  # an InputError is a ValueError, too
            problem = f"{path} is damaged: it does not describe a model of labeldp"
        raise InputError(problem)


def load(path: str | os.PathLike[str]) -> "Model":
    """Load the model that `labeldp fit` wrote into a directory, with its certificate.

    It predicts data frames (pandas, polars, pyarrow) with the columns of the fit, or images. Its files are checked as
    `labeldp predict` checks them, and no file can make it run code.

    Args:
        path: the directory.

    Returns:
        The model, without an evaluation: the summary and the report in the directory hold its results.

    Raises:
        InputError: not such a directory, or changed since it was certified.

    Examples:
        >>> load("missing")
        Traceback (most recent call last):
        ...
        labeldp.privacy.errors.InputError: missing is not a directory that labeldp fit wrote: it has no certificate.json
    """
    folder = Path(path)
    bundle = Bundle.read(folder)
    return replace(bundle.model, encoder=bundle.encoder, certificate=read_certified(folder)[0])


def _dumped(estimator: Any) -> bytes:
    """Write an estimator in the format of skops. Equal estimators give equal bytes.

    skops names objects by their addresses in memory, and some files at random, and adds dates. Here objects are
    numbered in the order in which they appear.
    """
    io = skops_io()
    with ZipFile(BytesIO(io.dumps(estimator))) as dumped:
        names: dict[str, str] = {}
        schema = json.loads(dumped.read(SCHEMA))
        _number_nodes(schema, names, set(dumped.namelist()))
        contents = {names[name]: dumped.read(name) for name in names}
    contents[SCHEMA] = json.dumps(schema, indent=2).encode()
    result = BytesIO()
    with ZipFile(result, "w") as file:
        for name, content in contents.items():
            member = ZipInfo(name)  # of 1980, the first date that there is
            member.create_system, member.external_attr = UNIX, 0o600 << 16
            file.writestr(member, content)
    return result.getvalue()


def skops_io() -> Any:
    """Import `skops.io`, and no other array library with it.

    For its list of trusted types skops imports all packages of scikit-learn. Some of them are wrappers that import
    torch, cupy and dask if these are installed, which takes seconds; another one imports pytest. During the import of
    skops these count as missing, and skops skips them. Later imports find them.
    """
    if "skops.io" not in sys.modules:
        hidden = [name for name in UNUSED if name not in sys.modules]
        missing: Any = None  # for which an import raises ModuleNotFoundError
        sys.modules.update(dict.fromkeys(hidden, missing))
        try:
            import_module("skops.io")
        finally:
            for name in hidden:
                sys.modules.pop(name, None)
    return sys.modules["skops.io"]


def _number_nodes(schema: Any, names: dict[str, str], files: Collection[str]) -> None:
    """Give all nodes of a schema and the files of their contents new names, in place.

    An object that appears twice stays one object. Equal plain values get separate names, because it depends on their
    origin whether they are one object.
    """
    numbers: dict[Any, int] = {}
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += reversed(node)
        elif isinstance(node, dict):
            number, name = node.get("__id__"), node.get("file")
            if isinstance(number, int):
                key = len(numbers) if node.get("__loader__") == "JsonNode" else ("object", number)
                node["__id__"] = numbers.setdefault(key, len(numbers) + 1)
            if isinstance(name, str) and name in files:
                node["file"] = names.setdefault(name, f"{len(names) + 1}{Path(name).suffix}")
            waiting += reversed(node.values())


END = b"PK\x05\x06"
END_BYTES = 22
"""Of the record at the end of an archive."""


def read_schema(content: bytes) -> Any:
    """Return the schema in an archive of skops, a JSON value.

    Raises:
        ValueError: two members have one name, bytes stand around the members, or the schema is no JSON.
        BadZipFile, KeyError: it is no such archive.
        InputError: its members are much larger than it.
    """
    with ZipFile(BytesIO(content)) as file:
        members = file.infolist()
        check_growth("a model", len(content), sum(member.file_size for member in members))
        alone = content[-END_BYTES:].startswith(END) and min(member.header_offset for member in members) == 0
        if len({member.filename.casefold() for member in members}) < len(members) or not alone:
            raise ValueError("readers of archives may understand it differently")
        return json_value(file.read(SCHEMA))


def _load_estimator(path: Path) -> Any:
    """Load the estimator in a file, if it holds nothing but trusted types."""
    io = skops_io()
    try:
        content = path.read_bytes()
        read_schema(content)
        types = io.get_untrusted_types(data=content)
        if any(name.startswith("labeldp.networks.") for name in types):
            imported("labeldp.networks")
        if TRUSTED.issuperset(types):
            return io.loads(content, trusted=sorted(TRUSTED))
        problem = "holds types that labeldp does not load"
    except InputError:
        raise
    except Exception as error:  # whatever the parser of a damaged or foreign archive meets
        problem = (
            f"cannot be loaded ({type(error).__name__}): it is damaged, or of another version of scikit-learn or "
            f"skops, with which labeldp {_version_beside(path)} wrote it; the same labeldp fit with another --out "
            "learns it again from the labels that were released, at no cost"
        )
    raise InputError(f"{path} {problem}")


def _version_beside(path: Path) -> str:
    """Return the version of labeldp that wrote a model, from the summary next to it; empty if it has none."""
    try:
        return str(read_json(path.with_name(SUMMARY)).get("version", ""))
    except InputError:
        return ""


def certify(folder: Path, certificate: Certificate, changes: Mapping[str, str] = {}) -> None:
    """Write the certificate with digests of all that it covers, and texts of covered files that change with it.

    All texts are on disk before the first file is replaced.
    """
    with ExitStack() as writing:
        target = writing.enter_context(atomic_write(folder / CERTIFICATE, overwrite=True))  # the last to be replaced
        drafts = {name: writing.enter_context(atomic_write(folder / name, overwrite=True)) for name in changes}
        for name, draft in drafts.items():
            draft.write_text(changes[name], encoding="utf-8")
        paths = {name: drafts.get(name, folder / name) for name in CERTIFIED}
        files = {name: file_digest(path) for name, path in paths.items() if path.is_file()}
        target.write_text(_certified(certificate, files), encoding="utf-8")


def _certified(certificate: Certificate, files: Mapping[str, str | None]) -> str:
    """Return the text of a certificate with digests of files."""
    content = {"format": FORMAT, "certificate": certificate.to_json(), "files": files}
    # Sorted, since a charge that a ledger finds again has its names in another order.
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def read_certified(folder: Path) -> tuple[Certificate, tuple[str, ...]]:
    """Return the certificate of a directory, and the names of files that changed or are gone, its own among them.

    Raises:
        InputError: the directory has no certificate of ours.
    """
    content = read_json(folder / CERTIFICATE)
    files = content.get("files")
    if content.get("format") != FORMAT or not isinstance(files, dict):
        raise InputError(f"{folder / CERTIFICATE} is damaged or of another version of labeldp")
    certificate = checked_certificate(content.get("certificate"), folder)
    changed = [name for name in CERTIFIED if files.get(name) != file_digest(folder / name)]
    if SUMMARY not in changed:
        same = read_json(folder / SUMMARY).get("certificate_digest") == certificate_digest(content["certificate"])
        changed += [] if same else [CERTIFICATE]
    return certificate, tuple(changed)


def certificate_digest(content: Any) -> str:
    """Return the SHA-256 of a certificate's JSON value, whatever its layout; the summary holds it."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Return a JSON value as the text of a file."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_write(path, overwrite=True) as hidden:
        hidden.write_text(text, encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        InputError: no such file, or not a JSON object.
    """
    if not path.is_file():
        raise InputError(f"{path.parent} is not a directory that labeldp fit wrote: it has no {path.name}")
    try:
        value = json_value(path.read_text(encoding="utf-8"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged: it is not a JSON object")
    return value


@dataclass(frozen=True)
class PretrainedModel:
    """Weights that were learned from other labels.

    Args:
        network: the fitted network, with the condition on which it costs nothing here.
        digest: of the file that it was in.
    """

    network: Public[Any] = field(repr=False)
    digest: str

    @classmethod
    def read(cls, path: str, account: Any) -> "PretrainedModel":
        """Read the network in a directory that `labeldp fit` wrote.

        Refuse one that was learned from these labels, whose charges would have to be in the new certificate.
        """
        folder = Path(path)
        certificate, estimator = read_certified(folder)[0], Bundle.read(folder).model.estimator
        networks = [part for part in getattr(estimator, "parts", [estimator]) if hasattr(part, "network_")]
        if not networks:
            raise InputError(f"--init: {path} must hold a network, as --model network makes it")
        shared = {charge.id for charge in certificate.entries} & {charge.id for charge in account.charges}
        if shared or certificate.dataset == account.scope.name:
            raise InputError(
                f"--init: {path} was learned from labels of a dataset {certificate.dataset!r}, like this one: take "
                "--stages 2 for the same labels, or give other ones another --dataset name"
            )
        condition = (
            f"the labels that the first weights ({folder.resolve().name}) were learned from are public, or those of "
            f"other records, which that model's own certificate protects (dataset {certificate.dataset!r})"
        )
        return cls(Public(networks[-1], why=condition), file_digest(folder / ESTIMATOR) or "")
