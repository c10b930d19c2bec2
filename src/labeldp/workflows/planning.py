"""Make_plan, read_features."""

from dataclasses import asdict, dataclass
from itertools import product
from math import ceil, inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.mechanisms import Interval
from labeldp.privacy import InputError
from labeldp.tables import BLOCK_ROWS, TableEncoder, open_table
from labeldp.theory import (
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
from labeldp.workflows.parsing import classes_of, decimal_float, domain_of, epsilon_of, parts_of, whole_number

NORMAL_95 = 1.6448536269514722
"""A normal variable exceeds so many standard deviations in one case of twenty."""

MAX_SQUARED_ERROR = 0.25
"""A squared error above this leaves little of a function that moves by 1."""

PROMISES = tuple(product(TRUSTS, PROTECTIONS[:2]))
"""What can be promised: whom one trusts, and what is protected."""


@dataclass(frozen=True)
class PublicFeatures:
    """What the feature columns of a file say.

    Args:
        file: its name.
        records: rows.
        columns: the feature columns that can be used.
        intrinsic_dimension: how many dimensions the features fill; None where too few rows differ.
        notes: what was left out, in words; of a large file as far as a sample of its rows shows.
    """

    file: str
    records: int
    columns: tuple[str, ...]
    intrinsic_dimension: float | None
    notes: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        """The number of feature columns."""
        return len(self.columns)


@dataclass(frozen=True)
class Question:
    """What a plan is asked; all of it is public.

    Args:
        records: N.
        dimension: d, of the features.
        task: "classification", "regression" or "heavy-tailed".
        epsilons: to be compared.
        trusts: of "local" and "central".
        protections: of "label" and "full".
        classes: K, for classification.
        interval: the ends of the range, for regression.
        spread: standard deviation of the labels of like records, half of the range being 1.
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
    ) -> "Question":
        """Read a question as a command line has it; what it leaves open is read off public features.

        Raises:
            InputError: the first that is wrong.
        """
        kind = _task(task, classes, interval, moments)
        domain = None if interval is None else domain_of(None, interval, 2)
        assert domain is None or isinstance(domain, Interval)
        return cls(
            records=_size(n, "--n", features.records if features else None),
            dimension=_size(d, "--d", features.dimension if features else None),
            task=kind,
            epsilons=tuple(epsilon_of(each) for each in parts_of(epsilon, "--epsilon")),
            trusts=parts_of(trust, "--trust", TRUSTS),
            protections=parts_of(protection, "--protection", PROTECTIONS[:2]),
            classes=None if classes is None else classes_of(classes).size,
            interval=None if domain is None else (domain.low, domain.high),
            spread=_spread(spread, domain),
            beta=decimal_float(beta, "--beta"),
            margin=decimal_float(margin, "--margin"),
            moments=None if moments is None else decimal_float(moments, "--moments"),
        ).checked()

    def checked(self) -> "Question":
        """Return the question, if it has an answer.

        Raises:
            InputError: the smoothness, the margin or the moments have no rate, or an epsilon is next to nothing.
        """
        if self.moments == inf:
            raise InputError("--moments must be finite: labels with all of them, such as bounded ones, have a --range")
        exponent(**self.setting, margin=self.margin)
        for epsilon in self.epsilons:
            cell_noise(task=self.task, epsilon=epsilon)
        return self

    @property
    def setting(self) -> dict[str, Any]:
        """What the rates ask beside the promise."""
        given = {"task": self.task, "dimension": self.dimension, "beta": self.beta}
        return given | ({"moments": self.moments} if self.moments is not None else {})

    @property
    def smoothness(self) -> dict[str, Any]:
        """What a balance asks beside records and noise."""
        order = inf if self.moments is None else self.moments
        return {"dimension": self.dimension, "beta": self.beta, "moments": order}

    @property
    def unit(self) -> float:
        """Half of the range: what 1 is in the unit of the labels."""
        return 1.0 if self.interval is None else (self.interval[1] - self.interval[0]) / 2


@dataclass(frozen=True)
class PlanRow:
    """What one promise leaves of the records.

    Args:
        epsilon, trust, protection: the promise.
        relative_records: how many times more records it needs than no privacy does for the same error.
        exponent: a, where the risk falls as N^-a for large N.
        noise: standard deviation that privacy adds to the answer of a cell: to the difference between two classes'
            shares, or to a mean in the unit of the labels.
        tells_apart: of classes, the smallest difference that a cell gets right in nineteen cases of twenty.
        off_by: of numbers, the root of the mean squared error beside the scatter of labels, in their unit.
        enough: whether the records are enough to learn more than that everything is the same.
        model: "cells", "neighbors" or "full cells".
        cells: how many, of about `cell_records` records; as cubes their side is `side`, features filling a unit cube.
        neighbors: k, where the model is neighbors.
        smallest: n_0 of numbers under full protection.
        clipping_radius: T of numbers with heavy tails, in units of the p-th root of the bound on E|label|^p.
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
class RecordsPlan:
    """The answer to a question.

    Args:
        question: that was asked.
        rows: one for each promise that was asked for.
        alternatives: for each epsilon what every promise would need: `PlanRow.relative_records` by "TRUST PROTECTION".
        features: of the file, where one was given.
    """

    question: Question
    rows: tuple[PlanRow, ...]
    alternatives: dict[float, dict[str, float]]
    features: PublicFeatures | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return {
            "version": 1,
            "question": asdict(self.question),
            "rows": [asdict(row) for row in self.rows],
            "alternatives": [{"epsilon": each, **needed} for each, needed in self.alternatives.items()],
            "features": None if self.features is None else asdict(self.features),
        }


def make_plan(question: Question, features: PublicFeatures | None = None) -> RecordsPlan:
    """Answer a question: from numbers that were stated or are public, and from no label.

    Args:
        question: what is asked.
        features: those of the file that the question was made from, to be reported.

    Source: Zhao, Table I, and `docs/proofs/planning.md`.
    """
    rows = tuple(
        _row(question, epsilon, trust, protection)
        for epsilon, trust, protection in product(question.epsilons, question.trusts, question.protections)
    )
    alternatives = {
        epsilon: {f"{trust} {what}": _relative(question, epsilon, trust, what) for trust, what in PROMISES}
        for epsilon in question.epsilons
    }
    return RecordsPlan(question, rows, alternatives, features)


def _row(asked: Question, epsilon: float, trust: str, protection: str) -> PlanRow:
    """Return what one promise leaves of the records."""
    noise = _noise(asked, epsilon, trust, protection)
    found = balance(records=asked.records, noise=noise, **asked.smoothness)
    numbers, labels = asked.task != "classification", protection == "label"
    near = numbers and labels and trust == "local"
    variance = noise.variance(found.inside, asked.records, reach=found.reach)
    return PlanRow(
        epsilon=epsilon,
        trust=trust,
        protection=protection,
        relative_records=_relative(asked, epsilon, trust, protection),
        exponent=exponent(**asked.setting, margin=asked.margin, trust=trust, protection=protection),
        noise=sqrt(noise.added(found.inside, asked.records)) * found.reach * asked.unit,
        tells_apart=None if numbers else NORMAL_95 * sqrt(variance),
        off_by=sqrt(found.error) * asked.unit if numbers else None,
        enough=found.error < MAX_SQUARED_ERROR,
        model="neighbors" if near else "cells" if labels else "full cells",
        cells=ceil(found.side**-asked.dimension - 1e-6),
        cell_records=found.inside,
        side=found.side,
        neighbors=ceil(found.inside) if near else None,
        smallest=max(1, ceil(found.inside / 2)) if numbers and not labels and trust == "central" else None,
        clipping_radius=found.reach if asked.task == "heavy-tailed" else None,
    )


def _relative(asked: Question, epsilon: float, trust: str, protection: str) -> float:
    """Return how many times more records a promise needs."""
    noise = _noise(asked, epsilon, trust, protection)
    return relative_records(records=asked.records, noise=noise, **asked.smoothness)


def _noise(asked: Question, epsilon: float, trust: str, protection: str) -> CellNoise:
    return cell_noise(task=asked.task, trust=trust, protection=protection, epsilon=epsilon, spread=asked.spread)


def _task(task: str | None, classes: str | None, interval: str | None, moments: str | None) -> str:
    """Return the task that was named, or that follows from what was declared; the two must agree."""
    declared = {"classification": classes, "regression": interval, "heavy-tailed": moments}
    options = {"classification": "--classes", "regression": "--range LOW,HIGH", "heavy-tailed": "--moments"}
    given = [each for each in TASKS if declared[each] is not None]
    if task is not None and task not in TASKS:
        raise InputError(f"--task must be one of {', '.join(TASKS)}")
    if len(given) != 1 or task not in (None, given[0]):
        wanted = (
            f"--task {task} needs {options[task]}" if task else "say what labels are: --classes, --range or --moments"
        )
        raise InputError(f"{wanted}, and none of the others")
    return given[0]


def _size(text: str | None, name: str, known: int | None) -> int:
    """Return a number of records or features that is given as text, else the known one of a file."""
    if text is not None:
        return whole_number(text, name)
    if known is None:
        raise InputError(f"{name} is missing: state it, or give a file with public features")
    return known


def _spread(text: str | None, domain: Interval | None) -> float:
    """Read the scatter of labels, half of the range being 1."""
    if text is None:
        return SPREAD
    if domain is None:
        raise InputError("--spread goes with --range: it is in the unit of the labels")
    value = decimal_float(text, "--spread") / ((domain.high - domain.low) / 2)
    if not 0 < value <= 1:
        raise InputError("--spread must be positive and at most half of the range: labels cannot scatter more")
    return value


SAMPLED_ROWS = 100_000
"""So many rows are looked at, drawn from all: enough for kinds of columns and dimensions."""


def read_features(
    path: str,
    *,
    label: str | None,
    columns: str | None = None,
    id_column: str | None = None,
    block_rows: int = BLOCK_ROWS,
    seed: int = 0,
) -> PublicFeatures:
    """Look at the public columns of a CSV or Parquet file, by blocks.

    Args:
        path: of the file.
        label: the private column, which must be named.
        columns: feature columns, separated by commas; all others by default.
        id_column: record ids, which are no feature.
        block_rows: rows read at a time.
        seed: of the rows that are kept, public.

    Guarantee: what is found does not depend on the label column.

    Raises:
        InputError: the label is not named, or a column or the file is not as it should be.
    """
    table = open_table(path)
    if label is None:
        raise InputError("--label must name the private column: it is left out, and never read")
    others = [table.require(label, "--label")]
    others += [table.require(id_column, "--id")] if id_column else []
    named = [name.strip() for name in columns.split(",")] if columns else []
    default = [name for name in table.columns if name not in (*others, *table.index)]
    used = [table.require(name, "--features") for name in named] or default
    if set(used) & set(others):
        raise InputError("--features must not hold the label column or the id column")
    if not used:
        raise InputError(f"{path} must have feature columns beside the label")
    rng, count = np.random.default_rng(seed), 0
    kept, keys = pa.Table.from_batches([], schema=table.schema(used)), np.zeros(0)
    for batch in table.blocks(used, block_rows=block_rows):
        count += batch.num_rows
        keys = np.concatenate([keys, rng.random(batch.num_rows)])
        smallest = np.argsort(keys, kind="stable")[:SAMPLED_ROWS]
        kept, keys = pa.concat_tables([kept, pa.Table.from_batches([batch])]).take(pa.array(smallest)), keys[smallest]
    encoder = TableEncoder.fit(kept)
    return PublicFeatures(Path(path).name, count, encoder.names, _intrinsic(encoder, kept), encoder.notes)


def _intrinsic(encoder: TableEncoder, rows: pa.Table) -> float | None:
    """Return the intrinsic dimension, where there is one."""
    from labeldp.learners import intrinsic_dimension  # it loads scikit-learn, which a plan without a file does not need

    try:
        return intrinsic_dimension(encoder.transform(rows))
    except InputError:
        return None
