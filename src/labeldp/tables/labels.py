"""The label column of a table: encoded in its domain, and written again as a mechanism answered it."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import Classes, Domain, FiniteMechanism, Interval, ResponseOnBins
from labeldp.privacy import DomainError, InputError
from labeldp.tables.values import distinct_labels, label_numbers, plain


def domain_in_file(domain: Domain) -> Domain:
    """Return the domain with its labels as a file holds them: the names of classes are texts there."""
    return Classes([str(name) for name in domain.names]) if isinstance(domain, Classes) else domain


def check_kind(schema: pa.Schema, label: str, domain: Domain) -> None:
    """Check the type of the label column in a schema, which is public; no label is read.

    Raises:
        InputError: the column holds neither numbers, for an interval, nor what can be written as text, for classes.
    """
    empty = pa.RecordBatch.from_arrays([pa.nulls(0, schema.field(label).type)], names=[label])
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
    if not isinstance(mechanism.domain, Classes):
        return pa.array(mechanism.values(noisy))
    names = mechanism.domain.names
    whole = all(isinstance(name, int) for name in names)
    return pa.array(names if whole else [str(name) for name in names]).take(pa.array(noisy))


def answers_in(mechanism: FiniteMechanism, column: pa.Array) -> NDArray[Any]:
    """Return the answers that `released_values` wrote, as the mechanism gave them.

    Raises:
        InputError: a value that is no answer of this mechanism.
    """
    domain = mechanism.domain
    if mechanism.answers is not None or isinstance(mechanism, ResponseOnBins) or isinstance(domain, Classes):
        coded = plain(column).cast(pa.string()).dictionary_encode()
        texts, places = coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
        if coded.null_count:
            raise InputError("must not have missing answers", argument="column")
        if mechanism.answers is not None:
            bits = np.array([[letter == "1" for letter in text.zfill(domain.size)] for text in texts])
            return np.asarray(np.packbits(bits, axis=1)[places])
        if isinstance(mechanism, ResponseOnBins):
            return np.array([mechanism.names.index(text) for text in texts], dtype=np.uint8)[places]
        return np.asarray(domain_in_file(domain).encode(np.array(texts, dtype=np.str_))[places])
    numbers = plain(column).cast(pa.float64()).to_numpy(zero_copy_only=False)
    outputs = getattr(mechanism, "outputs", None)
    if outputs is None:
        return domain.encode(numbers)
    nearest = np.abs(numbers[:, None] - outputs).argmin(axis=1)
    if not np.allclose(outputs[nearest], numbers, rtol=1e-9, atol=1e-9 * float(np.ptp(outputs))):
        raise InputError("must be outputs of the mechanism", argument="column")
    return nearest.astype(np.min_scalar_type(len(outputs) - 1))


def _bits(mechanism: FiniteMechanism, noisy: NDArray[Any]) -> pa.Array:
    bits = mechanism.named(noisy).view(np.uint8) + np.uint8(ord("0"))
    rows, classes = bits.shape
    edges = np.arange(rows + 1, dtype=np.int64) * classes
    return pa.Array.from_buffers(pa.large_string(), rows, [None, pa.py_buffer(edges), pa.py_buffer(bits.tobytes())])
