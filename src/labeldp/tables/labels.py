"""The label column of a table: encoded in its domain, and written again as a mechanism answered it."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import Domain, FiniteMechanism, ResponseOnBins
from labeldp.privacy import DomainError, InputError
from labeldp.tables.values import distinct_labels, label_numbers


def domain_in_file(domain: Domain) -> Domain:
    """Return the domain with its labels as a file holds them: the names of classes are texts there."""
    return domain.in_file()


def check_kind(schema: pa.Schema, label: str, domain: Domain) -> None:
    """Check the type of the label column in a schema, which is public; no label is read.

    Raises:
        InputError: the column holds neither numbers, for an interval, nor what can be written as text, for classes.
    """
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, schema.field(label).type)], names=[label])
    if domain.target == "numbers":
        label_numbers(empty, label)
    else:
        distinct_labels(empty, label)


def codes_of(batch: pa.RecordBatch, label: str, domain: Domain) -> NDArray[Any]:
    """Return the private codes of a block's labels, shape (rows,), in a domain from `domain_in_file`.

    Raises:
        DomainError: a label is missing or outside of the domain; the message does not say which, where or how many.
    """
    try:
        if domain.target == "numbers":
            return domain.encode(label_numbers(batch, label))
        texts, places = distinct_labels(batch, label)
        return np.asarray(domain.encode(texts)[places])
    except InputError as error:  # cells of a CSV file that are not of the domain's kind
        words = str(error)
    raise DomainError(words)


def released_column(mechanism: FiniteMechanism, label: str) -> str:
    """Return the name of the column that a mechanism makes of a label column."""
    return label + mechanism.column_ending


def released_values(mechanism: FiniteMechanism, noisy: NDArray[Any]) -> pa.Array:
    """Return the answers of a mechanism as the column of a table.

    Codes become labels of the domain; sets of classes become texts of one '0' or '1' for each class, in the order of
    the domain; bins become their two ends, such as "0 to 24.5".
    """
    if mechanism.answers is not None:
        return _bits(mechanism, noisy)
    if isinstance(mechanism, ResponseOnBins):
        return pa.array(mechanism.names).take(pa.array(noisy))
    if mechanism.domain.target != "classes":
        return pa.array(mechanism.values(noisy))
    names = mechanism.domain.decode(np.arange(mechanism.domain.size)).tolist()
    whole = all(isinstance(name, int) for name in names)
    return pa.array(names if whole else [str(name) for name in names]).take(pa.array(noisy))


def _bits(mechanism: FiniteMechanism, noisy: NDArray[Any]) -> pa.Array:
    bits = mechanism.named(noisy).view(np.uint8) + np.uint8(ord("0"))
    rows, classes = bits.shape
    edges = np.arange(rows + 1, dtype=np.int64) * classes
    return pa.Array.from_buffers(pa.large_string(), rows, [None, pa.py_buffer(edges), pa.py_buffer(bits.tobytes())])
