"""From a release to its summary."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp._version import __version__
from labeldp.curator import DatasetLedger
from labeldp.learners import Estimate, Evaluation, Model, NumberEvaluation, debiased_accuracy
from labeldp.mechanisms import Classes, Interval, debias
from labeldp.privacy import Certificate, Charge, Release, decimal, decimal_text, float_above, total_loss
from labeldp.tables import TableEncoder
from labeldp.workflows.fit.data import PublicRows
from labeldp.workflows.fit.simulate import importances, simulated_curve
from labeldp.workflows.fit.summary import (
    Across,
    Bin,
    BudgetUse,
    CertificateRow,
    Confusion,
    Cost,
    Curve,
    Dropped,
    Estimated,
    FitSummary,
    Importance,
    Numbers,
    NumberTest,
    Picture,
    PublicTest,
    Stage,
)

if TYPE_CHECKING:
    from labeldp.workflows.fit.data import Rows
    from labeldp.workflows.fit.recipe import Recipe

WIDE = 0.2
"""An accuracy interval wider than this is called too wide to tell."""

TINY = 10_000
"""Less than one part in so many of a budget is not worth a word: what is charged was rounded to the safe side."""

LEFT_OUT = "left out "
"""How the encoder's notes on columns that it does not use begin."""

SECRET = (
    "The labels themselves: they were read on this machine and written nowhere.",
    "The ledger file: it holds the keys to the noise, so it is as secret as the labels.",
)


@dataclass(frozen=True)
class FitRecord:
    """The public side of a fit."""

    recipe: "Recipe"
    file: str
    command: str
    rows: "Rows"
    account: DatasetLedger
    stages: tuple[Stage, ...]


def summarize(
    record: FitRecord, release: Release[Model], public: PublicRows | None, show: Callable[[str, float], None]
) -> FitSummary:
    """Everything that the report says.

    Args:
        record: recipe, file, rows and ledger.
        release: the model with its evaluation.
        public: a test file whose labels are public.
        show: told what is being done.
    """
    model, settings = release.value, record.recipe.settings
    rows, encoder = record.rows, record.rows.encoder
    scored = _numbers if isinstance(model.domain, Interval) else _classes
    curve, important = _explored(record, model, show)
    return FitSummary(
        title=f"A model of {settings.label if encoder.names else settings.dataset}, learnt from private labels",
        created=_released_at(record.account, release.certificate),
        version=__version__,
        dataset=settings.dataset,
        file=record.file,
        rows=len(rows.features),
        label=settings.label,
        features=tuple(encoder.names),
        model=record.recipe.describe(model),
        command=record.command,
        sentence=release.certificate.at(settings.delta),
        certificate=_rows(release.certificate, settings.delta),
        published=_published(record, release, public),
        secret=(SECRET[0], *record.recipe.secret, SECRET[1]),
        budget=_budget(record.account, release.certificate),
        dropped=_dropped(record),
        notes=(*_notes(encoder.notes), *record.recipe.notes),
        curve=curve,
        importance=important,
        stages=record.stages,
        images="" if encoder.names else str(encoder),
        picture=pictured(model, encoder, rows.features),
        **scored(model, public),
    )


def _classes(model: Model, public: PublicRows | None) -> dict[str, Any]:
    """The fields of a summary that classes have."""
    evaluation = model.evaluation
    assert isinstance(evaluation, Evaluation)
    accuracy, baseline = evaluation.accuracy(), constant_accuracy(evaluation.release, model.domain.size)
    other = "debiased; the class is chosen on one half of the released labels and measured on the other"
    return {
        "classes": tuple(str(name) for name in model.classes),
        "accuracy": _share(accuracy, f"debiased from {_many(evaluation)}"),
        "baseline": _share(baseline, other),
        "log_loss": _finite(evaluation.log_loss(), "debiased; probabilities are raised to at least 0.001"),
        "auc": _finite(evaluation.auc(), "debiased over pairs of records") if model.domain.size == 2 else None,
        "confusion": _confusion(evaluation),
        "test": None if public is None else _tested(model, public),
        "warnings": _warnings(accuracy, baseline) if public is None else (),
    }


def _numbers(model: Model, public: PublicRows | None) -> dict[str, Any]:
    """The fields of a summary that numbers have."""
    numbers = numbers_of(model, public)
    return {"classes": (), "numbers": numbers, "warnings": number_warnings(numbers) if public is None else ()}


def constant_accuracy(release: Release[NDArray[Any]], size: int) -> Estimate:
    """The accuracy of always answering the most frequent of `size` classes.

    A half of the released labels, drawn without looking at them, votes on the class, which is measured on the rest;
    both ways round, and averaged. Chosen on the labels that it is measured on, the class would look better than it is.
    Each half's interval has half the risk, so that the mean of both keeps the level.
    """
    found, level = [], (1 + Estimate.level) / 2
    answers = release.value[np.random.default_rng(0).permutation(len(release.value))]  # records may lie in any order
    for own in (0, 1):
        measured, voting = answers[own::2], answers[1 - own :: 2]
        if len(measured):
            votes = debias(release.mechanism, voting).values.sum(axis=0)
            chosen = np.full(len(measured), votes.argmax())
            found.append(debiased_accuracy(replace(release, value=measured), chosen, level=level))
    value, low, high = np.mean([(each.value, each.low, each.high) for each in found], axis=0)
    return Estimate(float(value), float(low), float(high))


def _explored(
    record: FitRecord, model: Model, show: Callable[[str, float], None]
) -> tuple[Curve | None, tuple[Importance, ...]]:
    """Other epsilons, where the recipe knows how to simulate them, and what columns are worth."""
    features, names, curve = record.rows.features, record.rows.encoder.names, None
    if record.recipe.simulation and isinstance(model.domain, Classes):
        show("trying other epsilons on simulated labels", 0.7)
        curve = simulated_curve(record.recipe, model, features)
    show("shuffling features", 0.9)
    return curve, importances(record.recipe, model, features, names) if names else ()


def _many(evaluation: Evaluation) -> str:
    return f"{len(evaluation.release.value):,} released labels; what was evaluated: {evaluation.source}"


def _estimated(estimate: Estimate, method: str) -> Estimated:
    return Estimated(float(estimate.value), float(estimate.low), float(estimate.high), float(estimate.level), method)


def _share(estimate: Estimate, method: str) -> Estimated:
    """An estimated share, moved into its interval: the unbiased estimate itself may lie above 1."""
    value = float(np.clip(estimate.value, estimate.low, estimate.high))
    return Estimated(value, float(estimate.low), float(estimate.high), float(estimate.level), method)


def _finite(estimate: Estimate, method: str) -> Estimated | None:
    """An estimate, or None where too few records gave it an interval."""
    found = np.isfinite([estimate.value, estimate.low, estimate.high]).all()
    return _estimated(estimate, method) if found else None


def _confusion(evaluation: Evaluation) -> Confusion:
    found = evaluation.confusion()
    shares = tuple(tuple(float(share) for share in row) for row in found.value)
    margin = float(np.max(np.maximum(found.high - found.value, found.value - found.low)))
    return Confusion(shares, "debiased from released labels; shares may be slightly negative", margin)


def _tested(model: Model, public: PublicRows) -> PublicTest:
    """Plain scores on public labels."""
    from sklearn.metrics import confusion_matrix, roc_auc_score

    probabilities = model.predict_proba(public.features)
    predicted, size = probabilities.argmax(axis=1), model.domain.size
    counts = confusion_matrix(public.labels, predicted, labels=np.arange(size)) / len(predicted)
    shares = tuple(tuple(float(share) for share in row) for row in counts)
    both = size == 2 and 0 < public.labels.sum() < len(public.labels)
    return PublicTest(
        public.file,
        len(predicted),
        float(np.mean(predicted == public.labels)),
        float(roc_auc_score(public.labels, probabilities[:, 1])) if both else None,
        Confusion(shares, "counted on the public test file"),
    )


def _released_at(account: DatasetLedger, certificate: Certificate) -> str:
    """When the last label of a model was released, as the ledger says: the same fit again says the same."""
    return max((entry.created for entry in account.entries if _ids(certificate) & _ids(entry.certificate)), default="")


def _ids(certificate: Certificate) -> set[str]:
    """Which charges a certificate holds."""
    return {charge.id for charge in certificate.entries}


def _rows(certificate: Certificate, delta: Any) -> tuple[CertificateRow, ...]:
    """The entries of a certificate in words."""
    return tuple(
        CertificateRow(
            mechanism=_mechanism(entry),
            epsilon=entry.loss.epsilon(delta),
            delta=float(delta),
            records=_place(entry),
            neighbors=certificate.neighbors.value,
            trust=certificate.trust.value,
            randomness=certificate.randomness.value,
            published=certificate.published,
            assumptions=certificate.assumptions,
        )
        for entry in certificate.entries
    )


def _mechanism(entry: Charge) -> str:
    """Its name, with its epsilon and delta where it has them."""
    costs = {name: entry.mechanism[name] for name in ("epsilon", "delta") if name in entry.mechanism}
    numbers = [f"{name} = {decimal_text(float_above(Fraction(value)))}" for name, value in costs.items()]
    return ", ".join([str(entry.mechanism.get("mechanism", "a mechanism")), *numbers])


def _place(entry: Charge) -> str:
    return ", ".join(f"part {part + 1} of split {split[:8]}" for split, part in entry.path) or "all records"


def _published(record: FitRecord, release: Release[Model], public: PublicRows | None) -> tuple[str, ...]:
    """What left the private side, a sentence each, and what else the written files hold."""
    texts = release.certificate.published.split("; ")
    sentences = [text[0].upper() + text[1:] + "." for text in texts]
    sentences.append(record.recipe.describe_noise(len(record.rows.features)))
    sentences.append("The model and the numbers in this report: computed from these releases and the features.")
    if public is not None:
        what = "Errors" if isinstance(release.value.domain, Interval) else "Accuracy and confusion"
        sentences.append(f"{what} on {public.file}: computed from its labels, which were said to be public.")
    if record.recipe.keeps_rows(release.value):
        sentences.append("The model's file holds feature rows of some records as they are: features are public here.")
    return tuple(sentences)


def _budget(account: DatasetLedger, certificate: Certificate) -> BudgetUse:
    """Where the budget stands; what is left is rounded down, to nothing where it is what rounding left over."""
    budget, own = account.budget, {entry.id for entry in certificate.entries}
    delta = float(decimal(budget.delta, "delta"))
    before = total_loss([charge for charge in account.charges if charge.id not in own])
    left = max(
        decimal(budget.epsilon, "epsilon") - decimal(account.spent.epsilon(budget.delta), "epsilon"), Fraction(0)
    )
    left = left if left > decimal(budget.epsilon, "epsilon") / TINY else Fraction(0)
    costs = (float(budget.epsilon), before.epsilon(delta), certificate.loss.epsilon(delta), float(left))
    total, earlier, run, rest = (Cost(cost, delta) for cost in costs)
    return BudgetUse(total, earlier, run, rest)


def _dropped(record: FitRecord) -> tuple[Dropped, ...]:
    """The columns that were asked for and are not used; the encoder says why."""
    found, encoder = [], record.rows.encoder
    for column in record.rows.columns:
        if column not in encoder.names:
            start = f"{LEFT_OUT}{column!r}: "
            why = [note.removeprefix(start) for note in encoder.notes if note.startswith(start)]
            found.append(Dropped(column, "; ".join(why) or "it cannot be used"))
    return tuple(found)


def _notes(notes: tuple[str, ...]) -> tuple[str, ...]:
    """What the encoder says of the columns that are used, as sentences."""
    return tuple(f"{note[0].upper()}{note[1:]}." for note in notes if not note.startswith(LEFT_OUT))


def _warnings(accuracy: Estimate, baseline: Estimate) -> tuple[str, ...]:
    """What a reader must know before believing a number."""
    found = []
    if accuracy.high - accuracy.low > WIDE:
        found.append(
            f"The interval of the accuracy, {accuracy.low:.2f} to {accuracy.high:.2f}, is too wide to tell how good "
            "the model is: more records, a larger epsilon, or public test labels would."
        )
    if accuracy.low <= baseline.high:
        found.append("The released labels do not show that the model is better than always answering the same class.")
    return tuple(found)


BINS = 20
"""Stretches of equally many records: each mean is over so many that the noise is legible."""

LEAST = 25
"""Records in a stretch, at least."""

TWO_SIDED = 1.96

UNSURE = 0.5
"""An error whose interval is wider than this share of the range is called too wide to tell."""


def numbers_of(model: Model, public: Any) -> Numbers:
    """Everything about predicted numbers that a report says.

    Args:
        model: with its evaluation.
        public: `PublicRows` of a test file whose labels are public, or None.
    """
    seen, domain = model.evaluation, model.domain
    assert isinstance(seen, NumberEvaluation) and isinstance(domain, Interval)
    many = f"debiased from {len(seen.release.value):,} released labels; what was evaluated: {seen.source}"
    explained = seen.explained()
    known = bool(np.isfinite([explained.value, explained.low]).all())
    other = "debiased; the mean is learnt from one half of the released labels and measured on the other"
    return Numbers(
        start=float(domain.low),
        end=float(domain.high),
        grid=domain.grid,
        clip=domain.clip,
        error=_inside(seen.error(), many),
        constant=_inside(seen.constant_error(), other),
        gain=_inside(seen.gain(), "debiased, record by record, so that most of the noise cancels out"),
        explained=_inside(explained, "the same as a share of that constant's squared error") if known else None,
        residuals=binned(seen.predictions, seen.residuals()),
        test=None if public is None else _tested_numbers(model, public.file, public.features, public.labels),
    )


def number_warnings(numbers: Numbers) -> tuple[str, ...]:
    """What a reader must know before believing a number."""
    found = []
    if numbers.error.high - numbers.error.low > UNSURE * numbers.constant.high:
        found.append(
            "The interval of the error is wide next to what always answering the mean would miss: more records, a "
            "larger epsilon, or public test labels would narrow it."
        )
    if numbers.gain.low <= 0:
        found.append("The released labels do not show that the model is better than always answering the mean.")
    return tuple(found)


def binned(along: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[Bin, ...]:
    """Means of debiased values in stretches of equally many records along a quantity, with normal intervals.

    Args:
        along: what records are put in order by, shape (n,); those without a finite value are left out.
        values: unbiased numbers, shape (n,).
    """
    known = np.flatnonzero(np.isfinite(along))
    order = known[np.argsort(along[known], kind="stable")]
    ordered = along[order]
    count = max(min(BINS, len(order) // LEAST), 1)
    # Equal quantities stay together, so that a stretch does not depend on how records lie in the file.
    edges = np.unique(np.searchsorted(ordered, ordered[np.arange(1, count) * len(order) // count]))
    return tuple(_bin(along[rows], values[rows]) for rows in np.split(order, edges) if len(rows) > 1)


def _bin(along: NDArray[np.float64], values: NDArray[np.float64]) -> Bin:
    value = float(values.mean())
    half = TWO_SIDED * float(values.std(ddof=1)) / len(values) ** 0.5
    start, middle, end = float(along.min()), float(along.mean()), float(along.max())
    return Bin(start, end, len(values), middle, value, value - half, value + half)


def _inside(estimate: Estimate, method: str) -> Estimated:
    """An estimate as it is shown, moved into its interval where a limit of what is possible cut that."""
    value = float(np.clip(estimate.value, estimate.low, estimate.high))
    return Estimated(value, float(estimate.low), float(estimate.high), float(estimate.level), method)


def _tested_numbers(model: Model, file: str, features: NDArray[Any], labels: NDArray[np.float64]) -> NumberTest:
    """Plain errors on public labels."""
    away = labels - model.predict(features)
    spread = float(labels.var())
    explained = 1 - float(np.mean(away**2)) / spread if spread > 0 else None
    return NumberTest(file, len(labels), float(np.sqrt(np.mean(away**2))), float(np.mean(np.abs(away))), explained)


PLACES = {1: 121, 2: 41}
"""Places along each feature, for one feature and for two."""

TAILS = 0.005
"""The share of the records beyond each end of a picture: a single far one would squeeze all the others."""

MANY = 30
"""Categories that a picture has room for."""


def pictured(model: Model, encoder: Any, features: NDArray[Any]) -> Picture | None:
    """What a model answers along its one feature or over its two; None for images, more features or many categories.

    Args:
        model: with its evaluation.
        encoder: of the table.
        features: public, shape (n, d).
    """
    if not isinstance(encoder, TableEncoder) or len(encoder.columns) not in PLACES:
        return None
    axes = tuple(_across(*pair, PLACES[len(encoder.columns)]) for pair in zip(encoder.columns, features.T, strict=True))
    if not all(len(axis.places) > 1 and len(axis.names) <= MANY for axis in axes):
        return None
    table = np.stack(np.meshgrid(*(axis.places for axis in axes), indexing="ij"), axis=-1).reshape(-1, len(axes))
    numbers = isinstance(model.domain, Interval)
    answers = model.predict(table)[None, :] if numbers else model.predict_proba(table).T
    seen = _seen(model, features[:, 0]) if len(axes) == 1 else ()
    return Picture(axes, tuple(tuple(float(value) for value in row) for row in answers), seen)


def _across(column: Any, values: NDArray[np.float64], count: int) -> Across:
    """Where a feature is looked at: between its tails, or at each of its categories."""
    known = values[np.isfinite(values)]
    if column.kind == "category":
        names = (*column.categories, *(("the rest",) if column.rest else ()))
        return Across(column.name, column.kind, tuple(map(float, range(len(names)))), names)
    low, high = np.quantile(known, [TAILS, 1 - TAILS])
    low, high = (low, high) if low < high else (known.min(), known.max())
    count = 2 if column.kind == "boolean" else count
    return Across(column.name, column.kind, tuple(np.linspace(low, high, count).tolist()))


def _seen(model: Model, feature: NDArray[np.float64]) -> tuple[Bin, ...]:
    """What released labels say along a feature; nothing where a chart has no place for it."""
    evaluation = model.evaluation
    assert evaluation is not None and evaluation.rows is not None
    labels = debias(evaluation.release.mechanism, evaluation.release.value).values
    if isinstance(evaluation, NumberEvaluation):
        return binned(feature[evaluation.rows], labels)
    return binned(feature[evaluation.rows], labels[:, 1]) if model.domain.size == 2 else ()
