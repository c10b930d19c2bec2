"""Check whether a model or a released file still matches its certificate."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from labeldp._version import __version__
from labeldp.fit.bundle import CERTIFICATE, REMEDY, REPORT, SUMMARY, Bundle, read_certified, read_json
from labeldp.fit.settings import public_digest
from labeldp.fit.summary import CostRow, FitSummary
from labeldp.images import names_images, open_images
from labeldp.privacy import Certificate, InputError, checked_certificate
from labeldp.releases import Check, Verdict, verify_file
from labeldp.tables import CERTIFICATE as FOLDER_CERTIFICATE
from labeldp.tables import (
    CERTIFICATE_SUFFIX,
    distinct_ids,
    has_folder_certificate,
    open_table,
)

CERTIFICATES = frozenset({CERTIFICATE, FOLDER_CERTIFICATE})
"""Certificates in a folder: of a model, of a released one."""


def verify(path: str) -> Verdict:
    """Check a model directory or a released file against its certificate.

    No link is followed: what it leads to may change.

    Raises:
        InputError: the path does not exist, has no certificate of labeldp, or has two.
    """
    folder = Path(path)
    if not folder.exists():
        raise InputError(f"there is no file or directory {path}")
    if folder.suffix == ".json" and (certificate := _of_totals(folder)):
        return Verdict(certificate, True, f"{path} certifies a value of a program: no file is compared with it.")
    if folder.suffix == ".json":
        raise InputError(
            f"{path} is no model and no released file: name the one that it certifies, such as the directory"
        )
    _check_names(folder)
    is_file = not folder.is_dir()
    verdict = verify_file(folder) if is_file or has_folder_certificate(folder) else _verify_model(folder)
    inside = sorted(folder.rglob("*"))
    links = [
        file for file in ((folder, Path(f"{folder}{CERTIFICATE_SUFFIX}")) if is_file else inside) if file.is_symlink()
    ]
    if links:
        sentence = (
            f"{path} is NOT what was certified: {links[0]} is a link, which is not followed. Copy its file there."
        )
        return Verdict(verdict.certificate, False, sentence)
    return verdict


def _check_names(folder: Path) -> None:
    """Raise InputError if a folder has two certificates, or one that a file system may take for another."""
    names = [name for name in os.listdir(folder) if name.casefold() in CERTIFICATES] if folder.is_dir() else []
    if len(names) > 1 or not CERTIFICATES.issuperset(names):
        raise InputError(
            f"{folder} must have one certificate, {CERTIFICATE} or {FOLDER_CERTIFICATE}, and has "
            f"{' and '.join(sorted(names))}: remove what labeldp did not write"
        )


def _verify_model(folder: Path) -> Verdict:
    certificate, changed = read_certified(folder)
    if changed:
        sentence = f"{folder} is NOT what was certified: {', '.join(changed)} changed or is missing. {REMEDY}."
        return Verdict(certificate, False, sentence)
    return Verdict(certificate, True, f"The certified files of {folder} are unchanged.")


def _of_totals(path: Path) -> Certificate | None:
    """Return the certificate of totals of a table, which a program wrote as JSON; None of another file."""
    try:
        certificate = checked_certificate(read_json(path), path)
    except InputError:
        return None
    return certificate if certificate.request is not None and certificate.request.kind == "totals" else None


def check_summary(path: str, render: Callable[[FitSummary], str]) -> Check | None:
    """Compare what summary and report of a model say of privacy with its certificate.

    Returns:
        The result; None if the path holds no model.
    """
    folder = Path(path)
    if not (folder / SUMMARY).is_file():
        return None
    certificate, _ = read_certified(folder)
    try:
        summary = FitSummary.from_json(read_json(folder / SUMMARY))
    except InputError as error:
        return Check(False, f"The summary of {path} is damaged: {error}")
    if summary.version != __version__:
        return Check(
            None, f"Unverified: labeldp {summary.version} wrote the summary of {path}, and may word it otherwise."
        )
    words = (
        certificate.neighbors.value,
        certificate.trust.value,
        certificate.randomness.value,
        certificate.published,
        certificate.assumptions,
    )
    delta, of = summary.certificate[0].delta if summary.certificate else 0.0, summary.budget.run.delta
    rows = [
        (row.epsilon, row.delta, row.neighbors, row.trust, row.randomness, row.published, row.assumptions)
        for row in summary.certificate
    ]
    same = (
        rows == [(charge.loss.epsilon(delta), delta, *words) for charge in certificate.entries]
        and summary.sentence == certificate.at(delta)
        and summary.budget.run == CostRow(certificate.epsilon(of), of)
        and summary.dataset == certificate.dataset
    )
    if not same:
        return Check(False, f"The summary of {path} does NOT say what its certificate says.")
    report = folder / REPORT
    if report.is_file() and report.read_text(encoding="utf-8") != render(summary):
        return Check(False, f"The report of {path} does NOT say what its summary says.")
    return Check(True, f"The summary and the report of {path} say what its certificate says.")


def check_records(path: str, data: str) -> Check:
    """Compare features and ids of a file with those that a model was learned from; labels are not read.

    Raises:
        InputError: the directory holds no model, or the file lacks a column.
    """
    folder = Path(path)
    if not (folder / CERTIFICATE).is_file():
        raise InputError(f"{path} has no digest of records to compare {data} with: it must be a model")
    request = read_certified(folder)[0].request
    if request is None or not request.source.digest:
        raise InputError(f"the certificate of {path} does not say which records the model was learned from")
    source, bundle = request.source, Bundle.read(folder)
    if not getattr(bundle.encoder, "shape", ()):
        features, ids = _table(bundle.encoder, data, source.ids or None)
    elif names_images(data):
        features, ids = bundle.encoder.transform(open_images(data, label=source.label).train.features), None
    else:
        raise InputError(f"{data} must be a source of images, as those of {path} are")
    if (len(features), public_digest(features, ids, source.ids or None)) != (source.rows, source.digest):
        return Check(False, f"The features and ids of {data} are NOT those that the model was learned from.")
    what = "features and ids" if source.ids else "features"
    return Check(
        True, f"The {what} of the {source.rows:,} records in {data} are those that the model was learned from."
    )


def _table(encoder: Any, data: str, id_column: str | None) -> tuple[Any, Any]:
    """Return encoded features of a table, and ids where there are some."""
    table = open_table(data)
    used = [column.name for column in encoder.columns]
    for name in (*used, *([id_column] if id_column else [])):
        table.require(name, "data")
    content: pa.Table = table.read(list(dict.fromkeys([*used, *([id_column] if id_column else [])])))
    if id_column is None:
        return encoder.transform(content.select(used)), None
    return encoder.transform(content.select(used)), distinct_ids(content, id_column)
