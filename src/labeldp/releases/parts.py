"""A released table in a folder: each worker writes its part, and the driver publishes all of them or none."""

import json
import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pyarrow as pa

from labeldp.privacy import InputError, LabelDigest, LabelDPError, record_words
from labeldp.releases.grants import Grant
from labeldp.tables import (
    CERTIFICATE,
    CHANGED,
    PART,
    SUCCESS,
    ColumnDigest,
    ParquetSink,
    file_digest,
    folder_document,
    open_table,
    recut,
    sync,
    usual_mode,
)

_ATTEMPTS, _PARTS = "attempts", "parts"


@final
@dataclass(frozen=True)
class PartTask:
    """Draws the noise of a part and writes it to a new file; a task that is run again writes another file.

    Args:
        grant: what is drawn.
        folder: where the files go.
    """

    grant: Grant
    folder: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        grant, name = self.grant, f"{secrets.token_hex(16)}.parquet"
        labels, column, sink = LabelDigest(grant.check_key), ColumnDigest(), None
        try:
            for batch in recut(batches):
                names, codes = grant.read(batch)
                labels.update(record_words(names, len(codes), grant.check_key), codes)
                answered = grant.answer(batch, names, codes)
                column.add(answered.column(grant.released))
                if sink is None:
                    sink = ParquetSink(Path(self.folder, name), grant.ids.column)
                sink.write(answered.replace_schema_metadata(None))
        except LabelDPError:  # these are not the labels that were charged
            return json.dumps({"changed": True}).encode()
        finally:
            if sink is not None:
                sink.finish(None)
        content = {"name": name, "rows": column.rows, "digest": column.value(), "labels": labels.state.hex()}
        content["sha256"] = file_digest(Path(self.folder, name))
        return json.dumps(content).encode()


def write_parts(data: Any, grant: Grant, out: str | os.PathLike[str], *, columns: tuple[str, ...] = ()) -> None:
    """Write a released table to a folder of Parquet parts with one certificate: completely or not at all.

    Records are in parts, and in order, by their ids: parts of the engine may follow the lengths of labels.

    Each worker writes to a hidden folder beside `out`, which the driver and all workers must see under the same path.
    Of a part that was computed several times only the file that the engine reports counts.

    Args:
        data: the table that was charged.
        grant: from `charge`.
        out: the folder, which must not exist.
        columns: columns to write beside the ids and the noisy labels.

    Guarantee (whole): `out` is never seen half-filled, and holds answers to the labels that were charged, or does not
        appear.

    Raises:
        InputError: `out` exists or cannot be written.
        LabelDPError: the labels are not those that were charged; nothing was published, and the release stays charged.
    """
    target = check_new_folder(Path(out))
    table = open_table(data).placed(grant.ids.column, grant.records)
    hidden = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    hidden.mkdir(mode=0o700)
    try:
        attempts, parts = hidden / _ATTEMPTS, hidden / _PARTS
        attempts.mkdir()
        parts.mkdir()
        task, read = PartTask(grant, str(attempts)), [grant.ids.column, grant.label, *columns]
        written = [json.loads(bytes(state)) for state in table.run(task, read)]
        _require_same_labels(grant, written)
        documents = {}
        for number, part in enumerate(part for part in written if part["rows"]):
            name = f"part-{number:05d}.parquet"
            (attempts / part["name"]).rename(parts / name)
            documents[name] = {key: part[key] for key in PART}
        document = folder_document(
            grant.certificate.to_json(), grant.released, [grant.ids.column, grant.released, *columns], documents
        )
        (parts / CERTIFICATE).write_text(document)
        (parts / SUCCESS).touch()
        for path in (*parts.iterdir(), parts):
            sync(path)
        parts.chmod(usual_mode(target))
        parts.rename(target)  # refuses a folder that is not empty
    except FileNotFoundError:
        raise InputError(
            f"{target} cannot be written: a worker wrote where the driver does not see it. The folder must have the "
            "same path on all machines, such as on a disk that all of them mount"
        ) from None
    except OSError as error:
        if os.path.lexists(target):
            raise InputError(f"{target} appeared meanwhile; choose another name or remove it first") from None
        raise LabelDPError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    sync(target.parent)


def check_new_folder(target: Path) -> Path:
    """Return a path at which a new folder can stand; raise InputError otherwise."""
    if not target.name or target.name == "..":
        raise InputError("must be the name of a new folder", argument="out")
    if os.path.lexists(target):
        raise InputError(f"{target} exists already; choose another name or remove it first")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be made: there is no directory {target.parent}")
    return target


def _require_same_labels(grant: Grant, written: Iterable[dict[str, Any]]) -> None:
    """Raise LabelDPError unless the labels of all parts together are those that were charged."""
    digest = LabelDigest(grant.check_key)
    for part in written:
        digest.add_state(bytes.fromhex(part.get("labels", "00" * 24)))
    if any("changed" in part for part in written) or digest.hexdigest() != grant.check:
        raise LabelDPError(f"{CHANGED.format('released')}: nothing was published")
