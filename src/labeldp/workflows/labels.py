"""The labels of a file as the core takes them."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import DomainError, InputError
from labeldp.tables import TableFile, distinct_labels, label_numbers


def domain_in_file(domain: Domain) -> Domain:
    """Return the domain under the names that its labels have in a file: classes are texts there."""
    return Classes([str(name) for name in domain.names]) if isinstance(domain, Classes) else domain


def check_kind(table: TableFile, label: str, domain: Domain) -> None:
    """Refuse a label column by its type, which is public: no label is read.

    Raises:
        InputError: numbers are needed, or what can be written as text.
    """
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, table.schema([label]).types[0])], names=[label])
    if isinstance(domain, Interval):
        label_numbers(empty, label)
    else:
        distinct_labels(empty, label)


def codes_of(batch: pa.RecordBatch, label: str, domain: Domain) -> NDArray[Any]:
    """Return the codes of a block's labels, shape (rows,), of a domain from `domain_in_file`; as private as they.

    Raises:
        DomainError: a label is missing or outside of the domain; the message does not say which, where or how many.
    """
    try:
        if isinstance(domain, Interval):
            return domain.encode(label_numbers(batch, label))
        texts, places = distinct_labels(batch, label)
        return np.asarray(domain.encode(texts)[places])
    except InputError as error:  # of another kind than the domain's, as the cells of a CSV file tell
        words = str(error)
    raise DomainError(words)
