"""Data in and out: tables by blocks, features as a matrix, images, ratings, released columns and certificates."""

from labeldp.tables.arrays import ImageData, LabeledArrays
from labeldp.tables.columns import FeatureColumn
from labeldp.tables.digest import ColumnDigest, column_digest
from labeldp.tables.features import INDEX, Blocks, TableEncoder
from labeldp.tables.ids import DistinctIds, record_ids
from labeldp.tables.images import names_images, open_images, open_unlabeled_images
from labeldp.tables.movielens import RatingData, load_movielens
from labeldp.tables.opening import open_table
from labeldp.tables.plain import table_writer
from labeldp.tables.reading import BLOCK_ROWS, TableFile
from labeldp.tables.released import ReleaseWriter, is_as_certified, read_certificate, release_writer
from labeldp.tables.values import as_text, distinct_labels, label_numbers, plain
from labeldp.tables.whole import whole_directory, whole_or_nothing

__all__ = [
    "BLOCK_ROWS",
    "INDEX",
    "Blocks",
    "ColumnDigest",
    "DistinctIds",
    "FeatureColumn",
    "ImageData",
    "LabeledArrays",
    "RatingData",
    "ReleaseWriter",
    "TableEncoder",
    "TableFile",
    "as_text",
    "column_digest",
    "distinct_labels",
    "is_as_certified",
    "label_numbers",
    "load_movielens",
    "names_images",
    "open_images",
    "open_table",
    "open_unlabeled_images",
    "plain",
    "read_certificate",
    "record_ids",
    "release_writer",
    "table_writer",
    "whole_directory",
    "whole_or_nothing",
]
