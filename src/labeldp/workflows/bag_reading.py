"""Read a file of released sums over bags again: what whoever receives it learns from."""

import os
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.mechanisms import BagSum, Classes, Domain, Interval, ShownBags
from labeldp.privacy import InputError, Public, Release
from labeldp.tables import open_table, plain, read_certificate
from labeldp.workflows.release import verify_file

Floats = NDArray[np.float64]


def read_bags(path: str | os.PathLike[str]) -> Release[ShownBags]:
    """A release of bags from its file, for `fit_bags`, `BagRegressor` and `labeldp.networks.train_bags`.

    Features are not in the file, `weighted-lba`'s weighted sums of them aside: whoever learns has them, a row for each
    row of the file in its order; with `weighted-lba` a column of ones and then those of the file, in any order of
    rows.

    Args:
        path: a CSV or Parquet file that `release_bags` or `labeldp release --mechanism bag-sum …` wrote.

    Returns:
        What was released, with the certificate found in or beside the file.

    Raises:
        InputError: no such file, no certificate of sums over bags, or a file that is not what was certified.
    """
    verdict = verify_file(path)
    if not verdict.holds:
        raise InputError(verdict.sentence)
    made = verdict.certificate.entries[0].mechanism
    readers = {"BagSum": _of_sums, "NoisyWeightedLLP": _of_published, "WeightedLBA": _of_hidden}
    if made.get("mechanism") not in readers:
        raise InputError(f"{path} holds no sums over bags: labeldp release --mechanism bag-sum writes them")
    table: pa.Table = open_table(path).read()
    try:
        shown = readers[made["mechanism"]](table, str(read_certificate(path)["column"]), made)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the certificate of {path} is damaged or not of labeldp") from error
    return Release(shown, verdict.certificate)


def _of_sums(table: pa.Table, released: str, made: Any) -> ShownBags:
    bags, domain = _bags(table), _domain(made["domain"])
    given: dict[str, Any] = {name: float(Fraction(made[name])) for name in ("epsilon", "delta") if name in made}
    spread = BagSum(
        made["size"], noise=made["noise"], domain=domain, bags=Public(bags, why="the file says so"), **given
    ).noise_stddev
    return _opened(table, released, domain, np.ones(len(bags)), lambda _: np.full(bags.max() + 1, spread))


def _of_published(table: pa.Table, released: str, made: Any) -> ShownBags:
    weights, noisy = _numbers(table, "weight"), _numbers(table, "noisy")
    each = float(Fraction(made["stddev"]))
    return _opened(
        table,
        released,
        _domain(made["domain"]),
        weights,
        lambda bags: each * np.sqrt(np.bincount(bags, weights=noisy * weights**2)),
    )


def _opened(table: pa.Table, released: str, domain: Domain, weights: Floats, spread: Any) -> ShownBags:
    """Sums that stand beside each record of their bag."""
    bags = _bags(table)
    firsts = np.unique(bags, return_index=True)[1]
    sizes = np.bincount(bags).astype(np.float64)
    return ShownBags(domain, len(bags), sizes, _numbers(table, released)[firsts], spread(bags), bags, weights)


def _of_hidden(table: pa.Table, released: str, made: Any) -> ShownBags:
    sizes, sums = _numbers(table, "records"), _numbers(table, released)
    names = [name for name in table.column_names if name not in ("bag", "records", released)]
    features = np.column_stack([_numbers(table, name) for name in names])
    spread = np.full(len(sums), float.fromhex(made["bag_noise"]))
    return ShownBags(_domain(made["domain"]), int(sizes.sum()) // made["rows"], sizes, sums, spread, features=features)


def _bags(table: pa.Table) -> NDArray[np.int64]:
    bags = _numbers(table, "bag").astype(np.int64)
    if not set(np.unique(bags)) == set(range(bags.max(initial=-1) + 1)):
        raise InputError("the file must have a column 'bag' of bag numbers, as it was released")
    return bags


def _numbers(table: pa.Table, column: str) -> Floats:
    """A column as numbers; true and false count as 1 and 0.

    Raises:
        InputError: it is not there, or holds something else.
    """
    problem = f"the file must have a column {column!r} of numbers, as it was released"
    if table.column_names.count(column) != 1:
        raise InputError(problem)
    values = plain(table.column(column).combine_chunks())
    try:
        numbers = values.cast(pa.bool_()) if column == "noisy" else values
        found: Floats = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        raise InputError(problem) from None
    if not np.isfinite(found).all():
        raise InputError(problem)
    return found


def _domain(content: Any) -> Domain:
    """The domain of a specification."""
    if "classes" in content:
        return Classes(content["classes"])
    low, high = (float(Fraction(content[end])) for end in ("low", "high"))
    return Interval(low, high, grid=content["grid"], clip=content.get("clip", False))
