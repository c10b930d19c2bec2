"""Plans: how many records a guarantee needs, from public numbers alone."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from math import ceil, inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.advice.rates import (
    PROTECTIONS,
    SPREAD,
    TASKS,
    TRUSTS,
    CellNoise,
    balance,
    cell_noise,
    exponent,
    relative_records,
)
from labeldp.fit import Advice, advise, classes_of, decimal_float, domain_of, epsilon_of, parts_of, whole_number
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import InputError
from labeldp.tables import TableEncoder, open_table

NORMAL_95 = 1.6448536269514722
"""The 95 % quantile of the standard normal distribution."""

MAX_SQUARED_ERROR = 0.25
"""The largest squared error at which something is learned of a function that moves by 1."""

PROMISES = tuple(product(TRUSTS, PROTECTIONS[:2]))
"""Every promise: its trust and what it protects."""

SAMPLED_ROWS = 100_000
"""How many rows of a file are sampled to tell the kinds of its columns and their intrinsic dimension."""


@dataclass(frozen=True)
class PublicFeatures:
    """What a plan reads from the feature columns of a file.

    Args:
        file: name of the file.
        records: number of rows.
        columns: the feature columns that can be used.
        intrinsic_dimension: estimated intrinsic dimension of the features; None if too few rows differ.
        notes: what was left out, in words; judged by a sample of the rows of a large file.
    """

    file: str
    records: int
    columns: tuple[str, ...]
    intrinsic_dimension: float | None
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        """Number of feature columns."""
        return len(self.columns)


@dataclass(frozen=True)
class SampleSizeQuery:
    """The public numbers that a plan is made from.

    Args:
        records: N, number of records.
        dimension: d, number of features.
        task: "classification", "regression" or "heavy-tailed".
        epsilons: privacy parameters to compare.
        trusts: "local", "central" or both.
        protections: "label", "full" or both.
        classes: K, for classification.
        interval: the ends of the range, for regression.
        spread: standard deviation of the labels of similar records, in units of half the range.
        beta: Hölder smoothness.
        margin: Tsybakov's γ.
        moments: p, for heavy tails.
    """

    records: int
    dimension: int
    task: str
    epsilons: tuple[float, ...]
    trusts: tuple[str, ...]
    protections: tuple[str, ...]
    classes: int | None
    interval: tuple[float, float] | None
    spread: float
    beta: float
    margin: float
    moments: float | None

    @classmethod
    def parse(
        cls,
        *,
        n: str | None,
        d: str | None,
        task: str | None,
        classes: str | None,
        interval: str | None,
        epsilon: str,
        trust: str,
        protection: str,
        spread: str | None,
        beta: str,
        margin: str,
        moments: str | None,
        features: PublicFeatures | None = None,
    ) -> "SampleSizeQuery":
        """Parse a question from the texts of a command line; public features fill in what is missing.

        Raises:
            InputError: an argument is wrong.
        """
        kind = _task(task, classes, interval, moments)
        domain = None if interval is None else domain_of(None, interval, 2)
        assert domain is None or isinstance(domain, Interval)
        return cls(
            records=_size(n, "--n", features.records if features else None),
            dimension=_size(d, "--d", features.dimension if features else None),
            task=kind,
            epsilons=tuple(epsilon_of(part) for part in parts_of(epsilon, "--epsilon")),
            trusts=parts_of(trust, "--trust", TRUSTS),
            protections=parts_of(protection, "--protection", PROTECTIONS[:2]),
            classes=None if classes is None else classes_of(classes).size,
            interval=None if domain is None else (domain.low, domain.high),
            spread=_spread(spread, domain),
            beta=decimal_float(beta, "--beta"),
            margin=decimal_float(margin, "--margin"),
            moments=None if moments is None else decimal_float(moments, "--moments"),
        ).checked()

    def checked(self) -> "SampleSizeQuery":
        """Return the question itself, after checking that it has an answer.

        Raises:
            InputError: there is no rate for the smoothness, the margin or the moments, or an epsilon is too small.
        """
        if self.moments == inf:
            raise InputError("--moments must be finite: labels with all of them, such as bounded ones, have a --range")
        exponent(**self.setting, margin=self.margin)
        for epsilon in self.epsilons:
            cell_noise(task=self.task, epsilon=epsilon)
        return self

    @property
    def setting(self) -> dict[str, Any]:
        """Arguments of the rates, without the guarantee."""
        arguments = {"task": self.task, "dimension": self.dimension, "beta": self.beta}
        return arguments | ({"moments": self.moments} if self.moments is not None else {})

    @property
    def smoothness(self) -> dict[str, Any]:
        """Arguments of `balance`, without records and noise."""
        order = inf if self.moments is None else self.moments
        return {"dimension": self.dimension, "beta": self.beta, "moments": order}

    @property
    def unit(self) -> float:
        """Half of the range, in the unit of the labels; 1 without a range."""
        return 1.0 if self.interval is None else (self.interval[1] - self.interval[0]) / 2


@dataclass(frozen=True)
class PlanRow:
    """What can be learned under one guarantee.

    Args:
        epsilon, trust, protection: the promise.
        relative_records: how many times the records it needs that learning without privacy needs for the same error.
        exponent: a, where the risk falls as N^-a for large N.
        noise: standard deviation that privacy adds to the answer of a cell: to the difference between the shares of
            two classes, or to a mean in the unit of the labels.
        tells_apart: for classes, the smallest difference that a cell gets right in nineteen cases of twenty.
        off_by: for numbers, the root of the mean squared error without the scatter of the labels, in their unit.
        enough: whether the records are enough for such cells or neighbors to learn more than an average.
        model: "cells", "neighbors" or "full cells".
        cells: number of cells, each of about `cell_records` records; cubes of side `side` if features fill a unit cube.
        neighbors: k, if the model is neighbors.
        smallest: n_0 for numbers under full protection.
        clipping_radius: T for numbers with heavy tails, in units of the p-th root of the bound on E|label|^p.
    """

    epsilon: float
    trust: str
    protection: str
    relative_records: float
    exponent: float
    noise: float
    tells_apart: float | None
    off_by: float | None
    enough: bool
    model: str
    cells: int
    cell_records: float
    side: float
    neighbors: int | None
    smallest: int | None
    clipping_radius: float | None


@dataclass(frozen=True)
class SampleSizePlan:
    """The answer to a question.

    Args:
        question: the question.
        rows: one row for each promise of the question.
        alternatives: for each epsilon, `PlanRow.relative_records` of every promise, by "TRUST PROTECTION".
        features: the features of the file, if one was given.
        advice: what `labeldp choose` says where labels alone are protected, by epsilon and trust; it knows no labels
            without a range.
    """

    question: SampleSizeQuery
    rows: tuple[PlanRow, ...]
    alternatives: dict[float, dict[str, float]]
    features: PublicFeatures | None = None
    advice: Mapping[tuple[float, str], Advice] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return {
            "version": 1,
            "question": asdict(self.question),
            "rows": [asdict(row) for row in self.rows],
            "alternatives": [{"epsilon": epsilon, **needed} for epsilon, needed in self.alternatives.items()],
            "features": None if self.features is None else asdict(self.features),
            "advice": [
                {"epsilon": epsilon, "trust": trust, **advice.to_json()}
                for (epsilon, trust), advice in self.advice.items()
            ],
        }


def make_plan(question: SampleSizeQuery, features: PublicFeatures | None = None) -> SampleSizePlan:
    """Answer a question from public numbers alone; no label is read.

    Args:
        question: the question.
        features: the features of the file that the question was made from, to be reported.

    Source: Zhao, Table I, and `docs/proofs/learning.md`.
    """
    rows = tuple(
        _row(question, epsilon, trust, protection)
        for epsilon, trust, protection in product(question.epsilons, question.trusts, question.protections)
    )
    alternatives = {
        epsilon: {f"{trust} {what}": _relative(question, epsilon, trust, what) for trust, what in PROMISES}
        for epsilon in question.epsilons
    }
    return SampleSizePlan(question, rows, alternatives, features, _advice(question))


def _advice(query: SampleSizeQuery) -> dict[tuple[float, str], Advice]:
    """Return what `labeldp choose` says of the same records, where labels alone are protected."""
    if "label" not in query.protections or query.task == "heavy-tailed":
        return {}
    domain = Classes(query.classes) if query.classes else Interval(*(query.interval or (0.0, 1.0)))
    return {
        (epsilon, trust): advise(query.records, query.dimension, domain, epsilon, 0.0, trust)
        for epsilon, trust in product(query.epsilons, query.trusts)
    }


def _row(query: SampleSizeQuery, epsilon: float, trust: str, protection: str) -> PlanRow:
    """Return what can be learned under one guarantee."""
    noise = _noise(query, epsilon, trust, protection)
    best = balance(records=query.records, noise=noise, **query.smoothness)
    numbers, labels = query.task != "classification", protection == "label"
    near = numbers and labels and trust == "local"
    variance = noise.variance(best.inside, query.records, reach=best.reach)
    return PlanRow(
        epsilon=epsilon,
        trust=trust,
        protection=protection,
        relative_records=_relative(query, epsilon, trust, protection),
        exponent=exponent(**query.setting, margin=query.margin, trust=trust, protection=protection),
        noise=sqrt(noise.added(best.inside, query.records)) * best.reach * query.unit,
        tells_apart=None if numbers else NORMAL_95 * sqrt(variance),
        off_by=sqrt(best.error) * query.unit if numbers else None,
        enough=best.error < MAX_SQUARED_ERROR,
        model="neighbors" if near else "cells" if labels else "full cells",
        cells=ceil(best.side**-query.dimension - 1e-6),
        cell_records=best.inside,
        side=best.side,
        neighbors=ceil(best.inside) if near else None,
        smallest=max(1, ceil(best.inside / 2)) if numbers and not labels and trust == "central" else None,
        clipping_radius=best.reach if query.task == "heavy-tailed" else None,
    )


def _relative(query: SampleSizeQuery, epsilon: float, trust: str, protection: str) -> float:
    """Return how many times the records without privacy a guarantee needs."""
    noise = _noise(query, epsilon, trust, protection)
    return relative_records(records=query.records, noise=noise, **query.smoothness)


def _noise(query: SampleSizeQuery, epsilon: float, trust: str, protection: str) -> CellNoise:
    return cell_noise(task=query.task, trust=trust, protection=protection, epsilon=epsilon, spread=query.spread)


def _task(task: str | None, classes: str | None, interval: str | None, moments: str | None) -> str:
    """Return the named task, or the one that the declared labels imply; the two must agree."""
    declared = {"classification": classes, "regression": interval, "heavy-tailed": moments}
    options = {"classification": "--classes", "regression": "--range LOW,HIGH", "heavy-tailed": "--moments"}
    named = [name for name in TASKS if declared[name] is not None]
    if task is not None and task not in TASKS:
        raise InputError(f"--task must be one of {', '.join(TASKS)}")
    if len(named) != 1 or task not in (None, named[0]):
        wanted = (
            f"--task {task} needs {options[task]}" if task else "say what labels are: --classes, --range or --moments"
        )
        raise InputError(f"{wanted}, and none of the others")
    return named[0]


def _size(text: str | None, name: str, default: int | None) -> int:
    """Return the number of records or features in a text, or the known one of a file."""
    if text is not None:
        return whole_number(text, name)
    if default is None:
        raise InputError(f"{name} is missing: state it, or give a file with public features")
    return default


def _spread(text: str | None, domain: Interval | None) -> float:
    """Parse the spread of the labels, in units of half the range."""
    if text is None:
        return SPREAD
    if domain is None:
        raise InputError("--spread goes with --range: it is in the unit of the labels")
    value = decimal_float(text, "--spread") / ((domain.high - domain.low) / 2)
    if not 0 < value <= 1:
        raise InputError("--spread must be positive and at most half of the range: labels cannot scatter more")
    return value


@dataclass(frozen=True)
class SampledFeatures:
    """Feature columns of some rows of a file.

    Args:
        records: rows of the file.
        encoder: of the columns that can be used, told by the sampled rows.
        rows: the sampled rows, as they are.
    """

    records: int
    encoder: TableEncoder
    rows: pa.Table


def read_features(path: str, **options: Any) -> PublicFeatures:
    """Read the public columns of a CSV or Parquet file, by blocks: see `sample_features`.

    Guarantee (no_label): what is found does not depend on the label column.

    Raises:
        InputError: the label is not named, a column does not exist, or the file cannot be read.
    """
    sample = sample_features(path, **options)
    encoder = sample.encoder
    dimension = _intrinsic(encoder, sample.rows)
    return PublicFeatures(Path(path).name, sample.records, encoder.names, dimension, encoder.notes)


def sample_features(
    path: str,
    *,
    label: str | None,
    columns: str | None = None,
    id_column: str | None = None,
    user_column: str | None = None,
    block_rows: int | None = None,
    seed: int = 0,
) -> SampledFeatures:
    """Count the rows of a CSV or Parquet file and sample the public columns of some, by blocks.

    Args:
        path: path of the file.
        label: the private column, which must be named.
        columns: feature columns, separated by commas; all others by default.
        id_column: record ids, which are not a feature.
        user_column: the column with the user of each record; it is no feature.
        block_rows: rows to read at a time; by default a number that follows from the number of columns.
        seed: public seed of the sample of rows.

    Raises:
        InputError: the label is not named, a column does not exist, or the file cannot be read.
    """
    table = open_table(path)
    if label is None:
        raise InputError("--label must name the private column: it is left out, and never read")
    left_out = [table.require(label, "--label")]
    left_out += [table.require(id_column, "--id")] if id_column else []
    left_out += [table.require(user_column, "--user")] if user_column else []
    named = [name.strip() for name in columns.split(",")] if columns else []
    default = [name for name in table.columns if name not in (*left_out, *table.index)]
    used = [table.require(name, "--features") for name in named] or default
    if set(used) & set(left_out):
        raise InputError("--features must not hold the label column, the id column or the user column")
    if not used:
        raise InputError(f"{path} must have feature columns in addition to the label")
    rng, count = np.random.default_rng(seed), 0
    sample, keys = pa.Table.from_batches([], schema=table.types(used)), np.zeros(0)
    for batch in table.blocks(used, block_rows=block_rows):
        count += batch.num_rows
        keys = np.concatenate([keys, rng.random(batch.num_rows)])
        smallest = np.argsort(keys, kind="stable")[:SAMPLED_ROWS]
        rows = pa.concat_tables([sample, pa.Table.from_batches([batch])])
        sample, keys = rows.take(pa.array(smallest)), keys[smallest]
    return SampledFeatures(count, TableEncoder.fit(sample), sample)


def _intrinsic(encoder: TableEncoder, rows: pa.Table) -> float | None:
    """Return the intrinsic dimension of the encoded rows; None if too few differ."""
    from labeldp.features import intrinsic_dimension  # loads scikit-learn, which a plan without a file does not need

    try:
        return intrinsic_dimension(encoder.transform(rows))
    except InputError:
        return None
