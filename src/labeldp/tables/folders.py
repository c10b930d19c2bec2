"""Tables of many files: the parts of a folder, and folders of released parts under one certificate."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import pyarrow as pa

from labeldp.privacy import InputError, LabelDPError, json_value, path_text
from labeldp.tables.atomic import atomic_directory, atomic_write, file_digest
from labeldp.tables.table import Table, open_table, plain
from labeldp.tables.values import as_text
from labeldp.tables.writing import FORMAT, ColumnDigest, ReleaseWriter, is_parquet, open_sink

CERTIFICATE = "_certificate.json"
"""The file of a released folder that holds its certificate."""

SUCCESS = "_SUCCESS"
"""The empty file that says that a released folder is complete."""

PART = ("rows", "digest", "sha256")
"""What a certificate says of each part."""

RECORDS = "_parts"
"""The folder of an unfinished output that says of each part what it was made of; it is not published."""


@final
@dataclass(frozen=True)
class FolderTable(Table):
    """The files of a folder as one table: they have the same columns.

    A column whose type is another in some file is read as text; of a part alone it has its own type.
    """

    files: tuple[Table, ...] = field(default=(), repr=False)

    @property
    def parts(self) -> tuple[Table, ...]:
        return self.files

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.path.relative_to(self.path).as_posix() for part in self.files)

    def is_unchanged(self) -> bool:
        return _listed(self.path) == self.names and all(part.is_unchanged() for part in self.files)

    def _stream(
        self, columns: tuple[str, ...], block_rows: int, encoded: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        schema = self.types(columns)
        for part in self.files:
            mixed = [name for name in columns if part.schema.field(name).type != schema.field(name).type]
            for batch in part.blocks(columns, block_rows=block_rows, encoded=encoded):
                arrays = [
                    as_text(plain(batch.column(name)), name).cast(pa.string()) if name in mixed else batch.column(name)
                    for name in columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns)) if mixed else batch


def open_folder(path: Path) -> FolderTable:
    """Open the files of a folder and its subfolders as one table.

    Names that begin with "_" or "." are left out, as every engine leaves them out; any other file is a part.

    Raises:
        InputError: no files, one that is not a table or whose name is not UTF-8, or columns that differ between them.
    """
    names = _listed(path)
    for name in names:
        if name != path_text(name):
            raise InputError(f"{path / name} must have a name in UTF-8: a certificate lists the parts of a folder")
    files = tuple(open_table(path / name) for name in names)
    if not files:
        raise InputError(f"the folder {path} holds no files")
    for part in files:
        if part.columns != files[0].columns:
            raise InputError(f"{part.path} has other columns than {files[0].path}: the parts of a table must agree")
    types = [{part.schema.field(name).type for part in files} for name in files[0].columns]
    kinds = [kind.pop() if len(kind) == 1 else pa.string() for kind in types]
    schema = pa.schema(list(zip(files[0].columns, kinds, strict=True)))
    rows = [part.rows for part in files]
    total = None if None in rows else sum(count for count in rows if count is not None)
    return FolderTable(path, schema, total, files[0].index, files=files)


def _listed(path: Path) -> tuple[str, ...]:
    parts = []
    for folder, inner, files in os.walk(path):
        inner[:] = [name for name in inner if not name.startswith(("_", "."))]
        for name in inner:
            if (Path(folder) / name).is_symlink():
                raise InputError(f"{Path(folder) / name} is a link to a folder, which is not followed")
        parts += [(Path(folder) / name).relative_to(path).as_posix() for name in files if name[0] not in "_."]
    return tuple(sorted(parts))


def folder_document(
    certificate: Mapping[str, Any], released: str, columns: Sequence[str], parts: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the text of the certificate of a released folder."""
    content = {"format": FORMAT, "column": released, "columns": list(columns), "parts": parts}
    content["certificate"] = certificate
    return json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


@final
class FolderWriter:
    """Writes the parts of a released table into a folder; get one from `release_folder`."""

    def __init__(self, folder: Path, columns: Sequence[str], released: str, ids: str | None = None) -> None:
        self._folder, self._columns, self._released, self._ids = folder, tuple(columns), released, ids
        self._parts: dict[str, dict[str, Any]] = {}
        self._certificate: dict[str, Any] | None = None

    def write(self, name: str, made_of: Mapping[str, Any], draw: Callable[[ReleaseWriter], None]) -> bool:
        """Write one part, unless a run that was killed wrote it of the same.

        Args:
            name: its path within the folder.
            made_of: all that the part depends on, as JSON values.
            draw: writes its blocks.

        Returns:
            Whether it was drawn.
        """
        target, record = self._folder / name, self._record(name)
        mark = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
        earlier = _read_record(record)
        if earlier is not None and earlier["mark"] == mark and _holds(target, self._released, earlier):
            self._parts[name] = {key: earlier[key] for key in PART}
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(target, overwrite=True) as hidden:
            with open_sink(target, hidden, self._ids) as sink:
                writer = ReleaseWriter(sink, self._columns, self._released)
                draw(writer)
                sink.finish(None)
            sha256 = file_digest(hidden)
        self._parts[name] = {"rows": writer.rows, "digest": writer.digest, "sha256": sha256}
        record.parent.mkdir(exist_ok=True)
        with atomic_write(record, overwrite=True) as draft:
            draft.write_text(json.dumps({"mark": mark, **self._parts[name]}), encoding="utf-8")
        return True

    def certify(self, certificate: Mapping[str, Any]) -> None:
        """Set the certificate of all parts, a JSON object; call this once, after the last part."""
        self._certificate = dict(certificate)

    def finish(self) -> None:
        """Write the certificate and the mark of success next to the parts."""
        if self._certificate is None or not self._parts:
            raise LabelDPError("a released folder needs parts and a certificate: call write and certify first")
        document = folder_document(self._certificate, self._released, self._columns, self._parts)
        with atomic_write(self._folder / CERTIFICATE, overwrite=True) as draft:
            draft.write_text(document, encoding="utf-8")
        for name in self._parts:
            self._record(name).unlink()
        with atomic_write(self._folder / SUCCESS, overwrite=True):
            pass

    def _record(self, name: str) -> Path:
        return self._folder / RECORDS / f"{hashlib.sha256(name.encode()).hexdigest()}.json"


@contextmanager
def release_folder(
    path: str | os.PathLike[str], names: Sequence[str], columns: Sequence[str], *, released: str, ids: str | None = None
) -> Iterator[FolderWriter]:
    """Write a released table as a folder of parts with one certificate: completely or not at all.

    The folder is filled under a hidden name beside it. What a killed run left there is used by the next one, part by
    part, if it was made of the same.

    Args:
        path: the folder, which must not exist.
        names: the paths of its parts.
        columns, released, ids: as for `release_writer`.

    Guarantee (whole, parts): `path` is never seen half-filled; in it are the parts, `_certificate.json` and `_SUCCESS`.

    Raises:
        InputError: the folder exists or cannot be written, or the name of a part ends in no known suffix.
        LabelDPError: another run is at work on it, or the disk is full.
    """
    for name in names:
        is_parquet(Path(name))
    with atomic_directory(path, (*names, CERTIFICATE, SUCCESS), RECORDS) as folder:
        writer = FolderWriter(folder, columns, released, ids)
        yield writer
        writer.finish()


def has_folder_certificate(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a released one."""
    return (Path(path) / CERTIFICATE).is_file()


def read_folder_certificate(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the certificate of a released folder.

    Returns:
        A dict: "certificate" as given to `certify`, "column", "columns", and of each of "parts" its rows and digests.

    Raises:
        InputError: the folder has no certificate of labeldp, or a damaged one.
    """
    file = Path(path) / CERTIFICATE
    try:
        content = json_value(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{path} has no certificate: {file} cannot be read") from None
    expected = {"format": int, "column": str, "columns": list, "parts": dict, "certificate": dict}
    readable = isinstance(content, dict) and all(isinstance(content.get(key), kind) for key, kind in expected.items())
    readable = readable and all(isinstance(part, dict) for part in content["parts"].values())
    if not readable or not all(isinstance(name, str) for name in content["columns"]):
        raise InputError(f"the certificate of {path} cannot be read: it is damaged or not of labeldp")
    if content["format"] != FORMAT:
        raise InputError(f"the certificate of {path} is of another version of labeldp")
    return content


def is_folder_as_certified(path: str | os.PathLike[str]) -> bool:
    """Return whether a released folder is complete, and its parts are the files that its certificate covers.

    Raises:
        InputError: as `read_folder_certificate`.
    """
    content, folder_path = read_folder_certificate(path), Path(path)
    if not (folder_path / SUCCESS).is_file() or _listed(folder_path) != tuple(sorted(content["parts"])):
        return False
    return all(_holds(folder_path / name, content["column"], part) for name, part in content["parts"].items())


def _holds(path: Path, column: str, part: Mapping[str, Any]) -> bool:
    """Return whether a file is a part, and holds a released column with its rows and its digest."""
    digest = ColumnDigest()
    if part.get("sha256") != file_digest(path):
        return False
    try:
        for batch in open_table(path).blocks([column]):
            digest.add(batch.column(0))
    except InputError:
        return False
    return bool(digest.rows == part.get("rows") and digest.value() == part.get("digest"))


def _read_record(path: Path) -> dict[str, Any] | None:
    try:
        content = json_value(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and {"mark", *PART} <= content.keys() else None
