"""Encode the label column of a file in its domain."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import DomainError, InputError
from labeldp.tables import TableFile, distinct_labels, label_numbers


def domain_in_file(domain: Domain) -> Domain:
    """Return the domain with its labels as a file holds them: the names of classes are texts there."""
    return Classes([str(name) for name in domain.names]) if isinstance(domain, Classes) else domain


def check_kind(table: TableFile, label: str, domain: Domain) -> None:
    """Check the type of the label column, which is public; no label is read.

    Raises:
        InputError: the column holds neither numbers, for an interval, nor what can be written as text, for classes.
    """
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, table.schema([label]).types[0])], names=[label])
    if isinstance(domain, Interval):
        label_numbers(empty, label)
    else:
        distinct_labels(empty, label)


def codes_of(batch: pa.RecordBatch, label: str, domain: Domain) -> NDArray[Any]:
    """Return the private codes of a block's labels, shape (rows,), in a domain from `domain_in_file`.

    Raises:
        DomainError: a label is missing or outside of the domain; the message does not say which, where or how many.
    """
    try:
        if isinstance(domain, Interval):
            return domain.encode(label_numbers(batch, label))
        texts, places = distinct_labels(batch, label)
        return np.asarray(domain.encode(texts)[places])
    except InputError as error:  # cells of a CSV file that are not of the domain's kind
        words = str(error)
    raise DomainError(words)
