"""The labels of a file as the core takes them."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import DomainError
from labeldp.tables import distinct_labels, label_numbers


def domain_in_file(domain: Domain) -> Domain:
    """The domain under the names that its labels have in a file: classes are texts there."""
    return Classes([str(name) for name in domain.names]) if isinstance(domain, Classes) else domain


def codes_of(batch: pa.RecordBatch, label: str, domain: Domain) -> NDArray[Any]:
    """The codes of a block's labels, shape (rows,), for a domain from `domain_in_file`; as private as the labels.

    Raises:
        DomainError: a label is missing or outside of the domain; the message does not say which, where or how many.
    """
    if isinstance(domain, Interval):
        return _encoded(label_numbers(batch, label), domain)
    texts, places = distinct_labels(batch, label)
    return np.asarray(domain.encode(texts)[places])


def _encoded(numbers: NDArray[np.float64], domain: Interval) -> NDArray[Any]:
    """The codes of numbers, shape (rows,); a refusal says what could be done."""
    try:
        return domain.encode(numbers)
    except DomainError as error:
        words = str(error)
    raise DomainError(f"{words}; --clip counts numbers outside as the nearest end")
