"""Read and write data: tables by blocks, features as a matrix, images, released columns, certificates."""

import warnings
from typing import Any

from labeldp.tables.atomic import atomic_directory, atomic_write, lock_directory, sync, usual_mode
from labeldp.tables.encoder import INDEX, Blocks, FeatureColumn, TableEncoder
from labeldp.tables.folders import (
    CERTIFICATE,
    SUCCESS,
    FolderWriter,
    Parts,
    folder_document,
    has_folder_certificate,
    is_folder_as_certified,
    open_parts,
    read_folder_certificate,
    release_folder,
)
from labeldp.tables.images import ImageData, LabeledArrays, names_images, open_images, open_unlabeled_images
from labeldp.tables.labels import check_kind, codes_of, domain_in_file, released_column, released_values
from labeldp.tables.reading import BLOCK_ROWS, TableFile, open_source, open_table
from labeldp.tables.spool import Spool
from labeldp.tables.values import (
    DistinctIds,
    as_text,
    distinct_labels,
    is_number,
    is_text,
    label_numbers,
    plain,
    record_ids,
)
from labeldp.tables.writing import (
    CERTIFICATE_SUFFIX,
    ColumnDigest,
    ParquetSink,
    ReleaseWriter,
    column_digest,
    has_suffix,
    is_arrow,
    is_as_certified,
    is_parquet,
    read_certificate,
    release_writer,
    table_writer,
)

__all__ = [
    "BLOCK_ROWS",
    "CERTIFICATE",
    "CERTIFICATE_SUFFIX",
    "INDEX",
    "SUCCESS",
    "Blocks",
    "ColumnDigest",
    "DistinctIds",
    "FeatureColumn",
    "FolderWriter",
    "ImageData",
    "LabeledArrays",
    "ParquetSink",
    "Parts",
    "ReleaseWriter",
    "Spool",
    "TableEncoder",
    "TableFile",
    "as_text",
    "atomic_directory",
    "atomic_write",
    "check_kind",
    "codes_of",
    "column_digest",
    "distinct_labels",
    "domain_in_file",
    "folder_document",
    "has_folder_certificate",
    "has_suffix",
    "is_arrow",
    "is_as_certified",
    "is_folder_as_certified",
    "is_number",
    "is_parquet",
    "is_text",
    "label_numbers",
    "lock_directory",
    "names_images",
    "open_images",
    "open_parts",
    "open_source",
    "open_table",
    "open_unlabeled_images",
    "plain",
    "read_certificate",
    "read_folder_certificate",
    "record_ids",
    "release_folder",
    "release_writer",
    "released_column",
    "released_values",
    "sync",
    "table_writer",
    "usual_mode",
]

_RENAMED = {"whole_directory": "atomic_directory", "whole_or_nothing": "atomic_write"}


def __getattr__(name: str) -> Any:
    """Return what a name of the last version is called now, with a warning."""
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"labeldp.tables.{name} is labeldp.tables.{_RENAMED[name]} now", DeprecationWarning, stacklevel=2)
    return globals()[_RENAMED[name]]
