"""`FitSummary`: what may be published of a fit, and its JSON form."""

from __future__ import annotations

import dataclasses
import json
import math
import types
from dataclasses import dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from labeldp.privacy import InputError

FORMAT = "labeldp fit summary 1"
"""The first entry of every summary's JSON object; another format is refused."""

TWO_SIDED = 1.96
"""Standard errors on each side of a normal interval of 95 %."""

_T = TypeVar("_T")


class FiniteFields:
    """A record whose numbers are all finite, so that it has a JSON form."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not math.isfinite(value):
                raise InputError(f"{type(self).__name__}.{field.name} must be a finite number, not {value}.")
        low, high = getattr(self, "low", None), getattr(self, "high", None)
        if low is not None and high is not None and low > high:
            raise InputError(f"{type(self).__name__}: low must not be above high, but {low} > {high}.")


@dataclass(frozen=True)
class CostRow(FiniteFields):
    """An amount of privacy loss: epsilon at a delta."""

    epsilon: float
    delta: float = 0.0


@dataclass(frozen=True)
class BudgetUse:
    """Where the dataset's budget stands; losses need not add up, since composition may be tighter than a sum.

    Args:
        total: the dataset's budget.
        before: spent by earlier releases.
        run: spent by this fit.
        left: what a further release may still cost.
    """

    total: CostRow
    before: CostRow
    run: CostRow
    left: CostRow


@dataclass(frozen=True)
class CertificateRow(FiniteFields):
    """One entry of the certificate, each field in words or numbers as the certificate states it.

    Args:
        mechanism: name and public parameters.
        epsilon: the entry's loss, at `delta`.
        delta: probability, in [0, 1].
        records: which records it answered, for example "part 1 of split 'stages'".
        neighbors: the neighboring relation.
        trust: who sees the raw labels.
        randomness: where the noise came from.
        published: what left the private side.
        assumptions: conditions under which the entry holds.
    """

    mechanism: str
    epsilon: float
    delta: float
    records: str
    neighbors: str
    trust: str
    randomness: str
    published: str
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class CurvePoint(FiniteFields):
    """Accuracy in [0, 1] at one epsilon, with a band."""

    epsilon: float
    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon <= 0:
            raise InputError(f"CurvePoint.epsilon must be positive, not {self.epsilon}.")


@dataclass(frozen=True)
class Curve:
    """Accuracy at other epsilons; `method` says how it is known (theory, or simulation on released data)."""

    points: tuple[CurvePoint, ...]
    method: str


@dataclass(frozen=True)
class Confusion:
    """Shares of all evaluation records by true class (row) and predicted class (column).

    Args:
        shares: (K, K), summing to about 1; a debiased share may be slightly negative.
        method: how they were obtained.
        margin: half-width of the widest share's confidence interval, where known.
    """

    shares: tuple[tuple[float, ...], ...]
    method: str
    margin: float | None = None

    def __post_init__(self) -> None:
        if any(len(row) != len(self.shares) for row in self.shares):
            raise InputError(f"Confusion.shares must be square, with {len(self.shares)} entries in each row.")
        if not all(math.isfinite(share) for row in self.shares for share in row):
            raise InputError("Confusion.shares must be finite numbers.")


@dataclass(frozen=True)
class ClassScore(FiniteFields):
    """How well one class is told from the others.

    Args:
        name: of the class.
        share: of the records that are predicted to be of it.
        true_share: of the records that are of it, debiased; may be slightly negative.
        recall: share of its records that the model finds; None where there seem to be none.
        precision: share of the records that are predicted to be of it which are; None where there are none.
    """

    name: str
    share: float
    true_share: float
    recall: Estimated | None
    precision: Estimated | None

    @property
    def neglected(self) -> bool:
        """Whether the model almost never predicts a class that occurs: a tenth as often, at most."""
        return self.true_share > 0.01 and self.share <= 0.1 * self.true_share


@dataclass(frozen=True)
class Importance(FiniteFields):
    """How much the debiased accuracy drops, in shares of 1, when one feature is shuffled.

    Where labels are numbers: how much the mean squared error rises, in the square of their unit.
    """

    feature: str
    drop: float
    low: float
    high: float


@dataclass(frozen=True)
class PublicTest(FiniteFields):
    """How the model does on a public file with true, public labels.

    Args:
        file: the file's name, without its folder.
        rows: number of records.
        accuracy: share of right answers.
        auc: area under the ROC curve, for two classes.
        confusion: shares of the file's records, as in `Confusion`.
        interval: of the accuracy on all records like the file's, exact (Clopper and Pearson), 95 percent.
    """

    file: str
    rows: int
    accuracy: float
    auc: float | None = None
    confusion: Confusion | None = None
    interval: Estimated | None = None


@dataclass(frozen=True)
class Stage(FiniteFields):
    """One public part of the records, and the mechanism that answered it.

    Args:
        name: for example "first stage" or "evaluation".
        records: number of records in the part.
        mechanism: name and epsilon.
        mean_candidates: mean number of classes that an answer could have been, where the mechanism limits them.
    """

    name: str
    records: int
    mechanism: str
    mean_candidates: float | None = None

    @classmethod
    def of(cls, step: str, records: int, mechanism: Any) -> Stage:
        """Return the stage of a release."""
        sizes = getattr(mechanism, "sizes", None)
        return cls(step, records, str(mechanism), None if sizes is None else float(sizes.mean()))


@dataclass(frozen=True)
class Dropped:
    """A column that the model does not use, and why."""

    column: str
    why: str


@dataclass(frozen=True)
class Estimated(FiniteFields):
    """A quantity estimated from released labels, with its confidence interval.

    Args:
        value: the estimate; a debiased share may lie outside [0, 1].
        low: lower end of the interval.
        high: upper end of the interval.
        level: confidence of the interval, in (0, 1).
        method: how the number was obtained, in words that a reader of the report understands.
    """

    value: float
    low: float
    high: float
    level: float
    method: str


@dataclass(frozen=True)
class Bin(FiniteFields):
    """What released labels say of the records in a stretch of some quantity.

    Args:
        start, end: of the stretch.
        records: how many lie in it.
        middle: their mean.
        value: the mean of what released labels say of them, debiased.
        low, high: its confidence interval.
    """

    start: float
    end: float
    records: int
    middle: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class NumberTest(FiniteFields):
    """How predicted numbers do on a public file with true, public labels.

    Args:
        file: the file's name, without its folder.
        rows: number of records.
        error: root mean squared error, in the unit of the labels.
        absolute: mean absolute error, in that unit.
        explained: R squared against the mean of the file's labels; None where all of them are the same.
    """

    file: str
    rows: int
    error: float
    absolute: float
    explained: float | None = None


@dataclass(frozen=True)
class RegressionSummary(FiniteFields):
    """Errors of a fit to numbers, in place of classes, accuracy and confusion.

    Args:
        start, end: the declared range.
        grid: points of the range that a released label can be.
        clip: whether labels outside were counted as the nearest end.
        error: root mean squared error, debiased, in the unit of the labels.
        constant: that of always answering the mean, chosen on other released labels.
        gain: by how much the mean squared error is below that of always answering the mean.
        explained: the gain as a share, R squared, where it could be told.
        residuals: labels minus predictions, by prediction.
        test: result on a public test file.
    """

    start: float
    end: float
    grid: int
    clip: bool
    error: Estimated
    constant: Estimated
    gain: Estimated
    explained: Estimated | None = None
    residuals: tuple[Bin, ...] = ()
    test: NumberTest | None = None


@dataclass(frozen=True)
class Across:
    """A feature along which answers are drawn.

    Args:
        feature: its name.
        kind: "number", "boolean", "time" (days since 1970) or "category" (places in `names`).
        places: values, in order.
        names: of the values, where they have some.
    """

    feature: str
    kind: str
    places: tuple[float, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A model's answers along its one feature, or over its two.

    Args:
        axes: one or two.
        answers: for numbers one row, for classes a row of probabilities each; with two features all places of the
            second for the first place of the first, and so on.
        seen: what released labels say along one feature: mean labels, or shares of the second of two classes.

    Raises:
        InputError: not as many answers as places, or one that is not finite.
    """

    axes: tuple[Across, ...]
    answers: tuple[tuple[float, ...], ...]
    seen: tuple[Bin, ...] = ()

    def __post_init__(self) -> None:
        count = math.prod(len(axis.places) for axis in self.axes)
        if len(self.axes) not in (1, 2) or any(len(row) != count for row in self.answers):
            raise InputError("Picture must have one or two axes and an answer for each of their places.")
        if not all(math.isfinite(value) for row in self.answers for value in row):
            raise InputError("Picture.answers must be finite numbers.")


@dataclass(frozen=True)
class FitSummary(FiniteFields):
    """A finished fit in public terms: everything that the report says is one of these fields.

    Args:
        created: when the last label was released, ISO 8601.
        version: version of labeldp.
        file: name of the data file, without its folder.
        rows: number of records.
        classes: names of the K classes, in the order of the domain; none where labels are numbers.
        features: names of the columns that the model uses.
        model: what the model is, as a phrase.
        choice: what `--model auto` took, and why, as a sentence; empty where the model was named.
        command: the command line that repeats the fit.
        published: plain sentences, one per thing that left the private side.
        secret: plain sentences, one per thing that must stay secret.
        accuracy: debiased accuracy of the model, of classes.
        baseline: debiased accuracy of always answering the most frequent class, chosen on other released labels.
        held_out: how many records the model did not learn from, and was measured on; 0 where it learned from all.
        remedies: sentences on what would make the model better, or its interval narrower.
        class_scores: each class, in the order of `classes`.
        gain: by how much the accuracy is above the baseline, compared record by record.
        dropped: columns left out, with the reason.
        log_loss: debiased, in nats.
        auc: debiased, for two classes.
        curve: accuracy at other epsilons.
        test: result on a public test file.
        warnings: sentences that a reader must see before believing a number.
        notes: sentences on how feature columns were read.
        request: the digest of what was asked for, which the certificate has in full.
        images: what the records are where they are images, as a phrase; then there are no features.
        certificate_digest: of the certificate beside the summary, so that a change of either shows.
        numbers: what is known of a model of numbers.
        picture: the answers of a model of one or two features.

    Raises:
        InputError: a number is not finite, a file has a folder, fewer than two classes or no accuracy of them, or a
            confusion matrix of another size than the classes.
    """

    title: str
    created: str
    version: str
    dataset: str
    file: str
    rows: int
    label: str
    classes: tuple[str, ...]
    features: tuple[str, ...]
    model: str
    command: str
    sentence: str
    certificate: tuple[CertificateRow, ...]
    published: tuple[str, ...]
    secret: tuple[str, ...]
    budget: BudgetUse
    accuracy: Estimated | None = None
    baseline: Estimated | None = None
    dropped: tuple[Dropped, ...] = ()
    log_loss: Estimated | None = None
    auc: Estimated | None = None
    confusion: Confusion | None = None
    curve: Curve | None = None
    importance: tuple[Importance, ...] = ()
    test: PublicTest | None = None
    stages: tuple[Stage, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    request: str = ""
    images: str = ""
    certificate_digest: str = ""
    numbers: RegressionSummary | None = None
    picture: Picture | None = None
    gain: Estimated | None = None
    held_out: int = 0
    remedies: tuple[str, ...] = ()
    class_scores: tuple[ClassScore, ...] = ()
    choice: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.numbers is None and (len(self.classes) < 2 or self.accuracy is None or self.baseline is None):
            raise InputError("FitSummary.classes must name at least two classes, of an accuracy and a baseline.")
        tests = (self.test, self.numbers.test if self.numbers else None)
        for file in (self.file, *(test.file for test in tests if test)):
            if "/" in file or "\\" in file:
                raise InputError("FitSummary: a file is named without its folder, so that no path is published.")
        for confusion in (self.confusion, self.test.confusion if self.test else None):
            if confusion is not None and len(confusion.shares) != len(self.classes):
                raise InputError(f"FitSummary: a confusion matrix must have {len(self.classes)} rows, one per class.")

    @property
    def crossed(self) -> bool:
        """Whether the accuracy, or the error, is that of models of cross-validation, not of the model itself."""
        score = self.accuracy if self.numbers is None else self.numbers.error
        return score is not None and "models of cross-validation" in score.method

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values: objects, lists, strings, numbers, booleans and null."""
        fields: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))  # lists, and floats of Python
        return {"format": FORMAT, **fields}

    @classmethod
    def from_json(cls, value: Any) -> FitSummary:
        """Return the summary that `to_json` wrote.

        Raises:
            InputError: the value is not such an object; the message names the first place that is wrong.
        """
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise InputError(f"The summary must be a JSON object whose format is {FORMAT!r}.")
        return _record(cls, {name: part for name, part in value.items() if name != "format"}, "summary")


def _record(cls: type[_T], value: Any, where: str) -> _T:
    """Read a dataclass from a JSON object with exactly its fields; those with a default may be missing."""
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    needed = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    if not isinstance(value, dict) or not needed <= value.keys() <= fields.keys():
        raise InputError(f"{where} must be an object with the fields {', '.join(fields)}.")
    return cls(**{name: _read(hints[name], part, f"{where}.{name}") for name, part in value.items()})


def _read(kind: Any, value: Any, where: str) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return None if value is None else _read(get_args(kind)[0], value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise InputError(f"{where} must be a list.")
        return tuple(_read(get_args(kind)[0], part, f"{where}[{index}]") for index, part in enumerate(value))
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, where)  # type: ignore[arg-type]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise InputError(f"{where} must be of type {kind.__name__}, not {type(value).__name__}.")
    return value
