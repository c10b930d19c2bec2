"""Release_bags, read_bags."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.curator import Curator, LedgerFile
from labeldp.mechanisms import Bagged, BagSum, Classes, Domain, Interval, NoisyWeightedLLP, ShownBags, WeightedLBA
from labeldp.privacy import Budget, Certificate, Floats, InputError, Public, Release, decimal
from labeldp.tables import TableEncoder, TableFile, as_text, open_table, plain, read_certificate, release_writer
from labeldp.workflows.fit.data import by_id, codes_in, distinct_ids
from labeldp.workflows.labels import check_kind, domain_in_file
from labeldp.workflows.verify import verify_file

BAG_MECHANISMS = "bag-sum", "noisy-weighted-llp", "weighted-lba"
"""What `release_bags` offers."""


def release_bags(
    data: str | os.PathLike[str],
    *,
    label: str,
    domain: Domain,
    mechanism: str,
    size: int,
    epsilon: Any,
    delta: Any = 0,
    bags: str | None = None,
    noisy: int | None = None,
    weights: str = "rademacher",
    rows: int = 1,
    ledger: str | os.PathLike[str],
    dataset: str,
    out: str | os.PathLike[str],
    id_column: str | None = None,
    revision: str | None = None,
    note: Callable[[str], None] | None = None,
) -> Certificate:
    """Release sums of a label column over bags as a table with a certificate.

    Noise is as small as (epsilon, delta) allows. All columns but label and ids are public features: bags are made of
    them, and `weighted-lba` sums them, so there they must be numbers. The table has a row for each record (its id or
    row number, its bag, its bag's noisy sum in LABEL_sum; `noisy-weighted-llp` adds its weight and whether it counts
    as noisy), or for `weighted-lba` a row for each weighted sum of features and labels (its bag, how many records that
    has, and the sums, of labels less the middle of their range). The same command on the same file costs nothing again.

    Args:
        data: the file.
        label: its private column.
        domain: an `Interval`, or two classes.
        mechanism: one of `BAG_MECHANISMS`.
        size: records in the smallest bag.
        epsilon, delta: what the release costs; of `bag-sum` delta = 0 asks for Laplace noise.
        bags: "median", "random", or a public column with a value for each bag, which then is no feature; by default
            "median" for `bag-sum`, else "random".
        noisy: labels of each bag that count as noisy; all of the smallest bag by default.
        weights: of `noisy-weighted-llp`: "rademacher" or "gaussian".
        rows: of `weighted-lba`: weighted sums of each bag.
        ledger, dataset, revision, note: as in `release_file`.
        out: the output, .parquet or .csv, which must not exist.
        id_column: record ids, all different, that are written beside the bags; with them the order of rows counts for
            nothing.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged and nothing published.
        LedgerError: the ledger cannot be used, or the labels changed; nothing was charged.
    """
    budget = Budget(epsilon, delta)
    if mechanism not in BAG_MECHANISMS:
        raise InputError(f"must be one of {', '.join(BAG_MECHANISMS)}", argument="mechanism")
    if mechanism != "bag-sum" and not decimal(delta, "delta"):
        raise InputError(f"must be positive for {mechanism}, such as 1e-6: its noise is Gaussian", argument="delta")
    records = _Records.read(open_table(data), label, id_column, domain, bags)
    design = _Design(domain, size, records, bags, epsilon, delta)
    made: Bagged
    if mechanism == "bag-sum":
        made = design.bag_sum()
    elif mechanism == "noisy-weighted-llp":
        made = design.llp(noisy, weights)
    else:
        made = design.lba(rows)
    account = LedgerFile(ledger).dataset(dataset, revision=revision, budget=budget)
    if Path(out).absolute() == Path(ledger).absolute():
        raise InputError("must be different files", argument=("out", "ledger"))
    released = f"{label}_sum"
    names = _columns(made, released, id_column, records.encoder.names)
    account.afford(made)
    with release_writer(out, names, released=released) as writer:
        if account.is_new and note:
            note(f"{dataset!r} is new in {ledger}: its whole budget is what this release may cost")
        curator = Curator.of_codes(records.codes, domain=domain, ledger=account, ids=records.ids)
        release = curator.release(made, rng=account.randomness)
        arrays = _published(made, release.value, records)
        others = pa.RecordBatch.from_arrays([pa.array(each) for each in arrays[:-1]], names=list(names[:-1]))
        writer.write(pa.array(arrays[-1]), others)
        writer.certify(release.certificate.to_json())
    return release.certificate


@dataclass(frozen=True)
class _Records:
    """The whole table in the order of the record ids where it has some: rows may stand in any order.

    Args:
        encoder: of the feature columns.
        features: shape (n, d).
        codes: compares the private labels with the domain and returns their codes, shape (n,).
        ids: record ids, or None for row numbers.
        names: what stands for each record in the output, in the order of the file.
        places: for each row of the file the place of its record here, shape (n,).
        bags: the bag of each record, where a column says it.
    """

    encoder: TableEncoder = field(repr=False)
    features: NDArray[np.float64] = field(repr=False)
    codes: Callable[[], NDArray[Any]] = field(repr=False)
    ids: Any = field(repr=False)
    names: pa.Array = field(repr=False)
    places: NDArray[np.intp] = field(repr=False)
    bags: Public[NDArray[np.int64]] | None = field(repr=False)

    @classmethod
    def read(cls, table: TableFile, label: str, id_column: str | None, domain: Domain, bags: str | None) -> "_Records":
        """Read everything, and check all but the labels: what is wrong is refused here."""
        own = bags if bags not in (None, "median", "random") else None
        columns = _feature_columns(table, label, id_column, own)
        check_kind(table, label, domain)
        content = table.read()
        ids, order = None, np.arange(content.num_rows)
        names = pa.array(order)
        if id_column is not None:
            ids, names = distinct_ids(content, id_column), content.column(id_column).combine_chunks()
            order = by_id(ids)
            content = content.take(pa.array(order))
            ids = [ids[row] for row in order.tolist()] if isinstance(ids, list) else ids[order]
        encoder = TableEncoder.fit(content.select(columns))
        codes = partial(codes_in, content.select([label]), label, domain_in_file(domain))
        return cls(encoder, encoder.transform(content), codes, ids, names, np.argsort(order), _bags_in(content, own))


def _bags_in(content: pa.Table, column: str | None) -> Public[NDArray[np.int64]] | None:
    """A bag for each value of a column, in the order of their texts; none without a column."""
    if column is None:
        return None
    texts = as_text(plain(content.column(column).combine_chunks()), column)
    if texts.null_count:
        raise InputError(f"must be a column without gaps: {column!r} has a missing value", argument="bags")
    _, numbers = np.unique(np.array(texts.to_pylist(), dtype=np.str_), return_inverse=True)
    return Public(numbers.astype(np.int64), why=f"the column {column!r} is public")


def _feature_columns(table: TableFile, label: str, id_column: str | None, bags: str | None) -> list[str]:
    """All columns but label, ids and bags."""
    table.require(label, "label")
    if id_column is not None:
        table.require(id_column, "id_column")
    if id_column == label:
        raise InputError("must be another column than label: ids are published", argument="id_column")
    if bags is not None and (bags not in table.columns or bags in (label, id_column)):
        raise InputError("must be median, random, or a column beside label and ids", argument="bags")
    columns = [name for name in table.columns if name not in (label, id_column, bags)]
    if not columns:
        raise InputError("the table must have feature columns beside the label: bags are made of them")
    return columns


@dataclass(frozen=True)
class _Design:
    """What all mechanisms are made of."""

    domain: Domain
    size: int
    records: _Records
    bags: str | None
    epsilon: Any
    delta: Any

    def common(self, bags: str) -> dict[str, Any]:
        """Arguments of all of them, and which bags they have by default."""
        own = self.records.bags
        given = {"epsilon": self.epsilon, "delta": self.delta, "domain": self.domain}
        features = Public(self.records.features, why="the columns beside the label are public features")
        return {**given, "bags": (self.bags or bags) if own is None else own, "features": features}

    def bag_sum(self) -> BagSum:
        """With Gaussian noise where a delta may be spent."""
        noise = "gaussian" if decimal(self.delta, "delta") else "laplace"
        return BagSum(self.size, noise=noise, **self.common("median"))

    def llp(self, noisy: int | None, weights: str) -> NoisyWeightedLLP:
        """With the smallest standard deviation that keeps (epsilon, delta)."""
        each = self.size if noisy is None else noisy
        return NoisyWeightedLLP(self.size, each, "auto", weights, **self.common("random"))

    def lba(self, rows: int) -> WeightedLBA:
        """With a constant feature before the others, and as little noise on each bag as keeps (epsilon, delta).

        Raises:
            InputError: a column holds categories: a sum of their codes says nothing.
        """
        encoder = self.records.encoder
        if found := [name for name, is_one in zip(encoder.names, encoder.categorical, strict=True) if is_one]:
            raise InputError(
                f"weighted-lba sums features: the column {found[0]!r} holds categories, make each a column of 0 and 1"
            )
        common = self.common("random")
        matrix = np.column_stack([np.ones(len(self.records.features)), self.records.features])
        return WeightedLBA(self.size, rows, **common | {"features": Public(matrix, why=common["features"].why)})


def _columns(made: Bagged, released: str, id_column: str | None, features: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of the output, the released one last."""
    if isinstance(made, WeightedLBA):
        names: tuple[str, ...] = ("bag", "records", "constant", *features, released)
    else:
        weighted = ("weight", "noisy") if isinstance(made, NoisyWeightedLLP) else ()
        names = ("row" if id_column is None else id_column, "bag", *weighted, released)
    if len(set(names)) < len(names):
        raise InputError(f"the table must not have columns with the names of the output: {', '.join(names)}")
    return names


def _published(made: Bagged, value: Any, records: _Records) -> list[Any]:
    """The columns of the output in order."""
    if isinstance(made, WeightedLBA):
        sums, labels = made.opened(value)
        bags = np.repeat(np.arange(made.partition.count), made.rows)
        return [bags, made.sizes[bags], *sums.T, labels]
    places, of_record = records.places, made.partition.of_record
    if isinstance(made, BagSum):
        return [records.names, of_record[places], made.totals(value)[of_record][places]]
    assert isinstance(made, NoisyWeightedLLP)
    shown = made.opened(value)
    return [records.names, *(each[places] for each in (of_record, shown.weights, shown.noisy, shown.sums[of_record]))]


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
