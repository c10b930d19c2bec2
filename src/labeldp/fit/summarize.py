"""From releases to a summary: how good a model is, what was published, and what it cost."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp._version import __version__
from labeldp.fit.job import Job
from labeldp.fit.rows import PublicRows
from labeldp.fit.suggestions import better_models, copy_warnings, narrower_interval
from labeldp.fit.summary import (
    TWO_SIDED,
    Across,
    Bin,
    BudgetUse,
    CertificateRow,
    ClassScore,
    Confusion,
    CostRow,
    Dropped,
    Estimated,
    FitSummary,
    NumberTest,
    Picture,
    PublicTest,
    RegressionSummary,
    Stage,
)
from labeldp.inference import (
    LEVEL,
    DebiasedErrors,
    Estimate,
    Scores,
    SummedErrors,
    clopper_pearson,
    debiased_accuracy,
)
from labeldp.learners import Evaluation, Model
from labeldp.mechanisms import Interval, RandomizedResponse, debias
from labeldp.privacy import AccountState, Certificate, Charge, Path, Release, decimal, decimal_text, float_above
from labeldp.tables import TableEncoder

PUBLIC_FLAG = "--test-labels-are-public"

WIDE_ACCURACY = 0.2
"""An accuracy interval wider than this is called too wide to tell."""

WIDE_ERROR = 0.5
"""An error whose interval is wider than this share of the constant's error is called too wide to tell."""

LEFT_OUT = "left out "
"""How the encoder's notes on columns that it does not use begin."""


def summarize(job: Job, release: Release[Model], stages: tuple[Stage, ...], command: str) -> FitSummary:
    """Return everything that the report says, but what `diagnosed` adds."""
    model, settings, learner, task = release.value, job.settings, job.learner, job.task
    features, encoder, certificate = job.rows.features, job.rows.encoder, release.certificate
    fields = (_of_numbers if model.domain.target == "numbers" else _of_classes)(model, job.public)
    fields["warnings"] = (*copy_warnings(model, features, encoder), *fields["warnings"])
    return FitSummary(
        title=f"Predict {settings.label if encoder.names else settings.dataset}",
        created=_created(certificate),
        version=__version__,
        dataset=settings.dataset,
        file=job.file,
        rows=len(features),
        label=settings.label,
        features=tuple(encoder.names),
        model=learner.describe(model, task),
        choice=str(job.choice),
        command=f"{command} {PUBLIC_FLAG}" if job.public else command,
        sentence=certificate.at(settings.delta),
        certificate=tuple(
            CertificateRow(
                mechanism=_mechanism(entry),
                epsilon=entry.loss.epsilon(settings.delta),
                delta=float(settings.delta),
                records=_records(job, entry.path),
                neighbors=certificate.neighbors.value,
                trust=certificate.trust.value,
                randomness=certificate.randomness.value,
                published=certificate.published,
                assumptions=certificate.assumptions,
            )
            for entry in certificate.entries
        ),
        published=_published(job, release),
        secret=(
            "The raw labels. This fit did not write them to disk."
            if not job.settings.server
            else "The raw labels. The server did not send them.",
            *learner.hidden(task),
            *job.account.secret,
        ),
        budget=budget_use(job.account.read(), certificate),
        dropped=_dropped(job),
        notes=(
            *(f"{note[0].upper()}{note[1:]}." for note in encoder.notes if not note.startswith(LEFT_OUT)),
            *learner.notes,
        ),
        stages=stages,
        images="" if encoder.names else str(encoder),
        picture=_picture(model, encoder, features),
        held_out=_held_out(model, len(features)),
        remedies=_remedies(job, model),
        **fields,
    )


def _of_classes(model: Model, public: PublicRows | None) -> dict[str, Any]:
    evaluation = model.evaluation
    assert isinstance(evaluation, Scores)
    constant = constant_classes(evaluation.release)
    accuracy, baseline = evaluation.accuracy(), constant_accuracy(evaluation.release, constant)
    gain = evaluation.compare(constant)
    other = "debiased; the class is chosen on one half of the released labels and measured on the other"
    matrix = evaluation.confusion()
    warnings = []
    if accuracy.high - accuracy.low > WIDE_ACCURACY:
        warnings.append(
            f"The 95% interval ({accuracy.low:.2f}–{accuracy.high:.2f}) is too wide to judge this model. Use more "
            "records, a larger ε, or a public test set."
        )
    if gain.low <= 0:
        warnings.append("The noisy labels do not show that the model is better than the majority class.")
    return {
        "classes": tuple(str(name) for name in model.classes),
        "accuracy": _within_interval(accuracy, _source(evaluation)),
        "baseline": _within_interval(baseline, other),
        "gain": _finite(gain, "debiased, record by record"),
        "class_scores": _class_scores(model, evaluation, matrix.value),
        "log_loss": _finite(evaluation.log_loss(), "debiased; probabilities are raised to at least 0.001"),
        "auc": _finite(evaluation.auc(), "debiased over pairs of records") if model.domain.size == 2 else None,
        "confusion": Confusion(
            _shares(matrix.value),
            "debiased from released labels; shares may be slightly negative",
            float(np.max(np.maximum(matrix.high - matrix.value, matrix.value - matrix.low))),
        ),
        "test": None if public is None else _class_test(model, public),
        "warnings": () if public else tuple(warnings),
    }


def _of_numbers(model: Model, public: PublicRows | None) -> dict[str, Any]:
    evaluation, domain = model.evaluation, model.domain
    assert isinstance(evaluation, DebiasedErrors | SummedErrors) and isinstance(domain, Interval)
    error, constant, gain = evaluation.error(), evaluation.constant_error(), evaluation.gain()
    explained = evaluation.explained()
    finite = np.isfinite([explained.value, explained.low]).all()
    against = "; labels outside of the range count as its ends" if domain.clip else ""
    if isinstance(evaluation, SummedErrors):
        other = "of the mean prediction, by a noisy sum over the same records" + against
        difference = "the difference of both noisy sums"
    else:
        other = "debiased; the mean is learned from one half of the released labels and measured on the other" + against
        difference = "debiased, record by record, so that most of the noise cancels out"
    share = "the same as a share of that constant's squared error"
    numbers = RegressionSummary(
        start=float(domain.low),
        end=float(domain.high),
        grid=domain.grid,
        clip=domain.clip,
        error=_within_interval(error, _source(evaluation) + against),
        constant=_within_interval(constant, other),
        gain=_within_interval(gain, difference),
        explained=_within_interval(explained, share) if finite else None,
        residuals=()
        if isinstance(evaluation, SummedErrors)
        else binned(evaluation.predictions, evaluation.residuals()),
        test=None if public is None else _number_test(model, public),
    )
    warnings = []
    if error.high - error.low > WIDE_ERROR * constant.high:
        warnings.append(
            "The 95% interval of the error is wide compared with the mean baseline. Use more records, a larger ε, or a "
            "public test set."
        )
    if gain.low <= 0:
        warnings.append("The noisy labels do not show that the model is better than the mean.")
    return {"classes": (), "numbers": numbers, "warnings": () if public else tuple(warnings)}


def _remedies(job: Job, model: Model) -> tuple[str, ...]:
    """Return what would help; nothing where users pay, who would have to be counted again."""
    settings, (records, *shape) = job.settings, job.rows.features.shape
    if job.owners is not None:
        return ()
    kinds = getattr(job.rows.encoder, "categorical", ())
    sentences = better_models(settings, records, shape[0], sum(kinds)) if job.rows.encoder.names else ()
    if not isinstance(model.evaluation, Scores):
        return sentences
    release = model.evaluation.release
    plain = isinstance(release.mechanism, RandomizedResponse)
    accuracy = model.evaluation.accuracy()
    return sentences + narrower_interval(settings, accuracy, len(release.value), records, one_by_one=plain)


def _held_out(model: Model, records: int) -> int:
    """Return how many records a model was measured on, if it did not learn from them."""
    assert model.evaluation is not None and model.evaluation.rows is not None
    measured = len(model.evaluation.rows)
    return measured if measured < records else 0


def _class_scores(model: Model, evaluation: Scores, matrix: NDArray[np.float64]) -> tuple[ClassScore, ...]:
    """Return what released labels say of each class, given the debiased confusion matrix, shape (K, K)."""
    recall, precision = evaluation.recall(), evaluation.precision()
    size = model.domain.size
    shares = np.bincount(evaluation.predictions, minlength=size) / len(evaluation.predictions)

    def of(score: Estimate, name: Any) -> Estimated | None:
        one = score.at(**{"class": name})
        return _within_interval(one, "debiased") if np.isfinite([one.value, one.low, one.high]).all() else None

    return tuple(
        ClassScore(str(name), float(shares[code]), float(matrix[code].sum()), of(recall, name), of(precision, name))
        for code, name in enumerate(model.classes)
    )


def constant_classes(release: Release[NDArray[Any]]) -> NDArray[np.intp]:
    """Return for each record the class that is most frequent among released labels that are not its own, shape (n,).

    Each random half of the records gets that of the other half: chosen on the labels that it is measured on, a class
    would look better than it is.
    """
    unbiased = debias(release.mechanism, release.value).values
    first = _first_half(len(unbiased))
    votes = [int(unbiased[half].sum(axis=0).argmax()) for half in (first, ~first)]
    return np.where(first, votes[1], votes[0])


def constant_accuracy(release: Release[NDArray[Any]], chosen: NDArray[np.intp]) -> Estimate:
    """Return the accuracy of constant classes that each half of the records was given: the mean of both halves.

    Each half's interval has half the risk, so that the mean of both keeps the level.
    """
    first = _first_half(len(chosen))
    level = (1 + LEVEL) / 2
    estimates = [
        debiased_accuracy(replace(release, value=release.value[half]), chosen[half], level=level)
        for half in (first, ~first)
        if half.any()
    ]
    value, low, high = np.mean([(estimate.value, estimate.low, estimate.high) for estimate in estimates], axis=0)
    return replace(estimates[0], quantity="accuracy of constants", value=value, low=low, high=high, level=LEVEL)


def _first_half(records: int) -> NDArray[np.bool_]:
    """Return whether each record is in a half that is drawn at random, since records may lie in any order."""
    first = np.zeros(records, bool)
    first[np.random.default_rng(0).permutation(records)[::2]] = True
    return first


def _source(evaluation: Evaluation) -> str:
    if isinstance(evaluation, SummedErrors):
        records = f"{len(evaluation.predictions):,} records"
        return f"from a noisy sum of squared errors over {records}; what was evaluated: {evaluation.about}"
    return f"debiased from {len(evaluation.release.value):,} released labels; what was evaluated: {evaluation.about}"


def _within_interval(estimate: Estimate, method: str) -> Estimated:
    """Return an estimate moved into its interval, which limits of what is possible may have cut."""
    value = float(np.clip(estimate.value, estimate.low, estimate.high))
    return Estimated(value, float(estimate.low), float(estimate.high), float(estimate.level), method)


def _finite(estimate: Estimate, method: str) -> Estimated | None:
    """Return an estimate, or None where too few records gave it an interval."""
    value, low, high = (float(number) for number in (estimate.value, estimate.low, estimate.high))
    return Estimated(value, low, high, float(estimate.level), method) if np.isfinite([value, low, high]).all() else None


def _shares(matrix: NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in np.asarray(matrix, dtype=np.float64).tolist())


def _class_test(model: Model, public: PublicRows) -> PublicTest:
    from sklearn.metrics import confusion_matrix, roc_auc_score

    probabilities = model.predict_proba(public.features)
    predicted, size = probabilities.argmax(axis=1), model.domain.size
    right = int(np.sum(predicted == public.labels))
    low, high = clopper_pearson(right, len(predicted), LEVEL)
    shares = confusion_matrix(public.labels, predicted, labels=np.arange(size)) / len(predicted)
    both = size == 2 and 0 < public.labels.sum() < len(public.labels)
    return PublicTest(
        public.file,
        len(predicted),
        right / len(predicted),
        float(roc_auc_score(public.labels, probabilities[:, 1])) if both else None,
        Confusion(_shares(shares), "counted on the public test file"),
        Estimated(right / len(predicted), float(low), float(high), LEVEL, "counted on the public test file"),
    )


def _number_test(model: Model, public: PublicRows) -> NumberTest:
    away, spread = public.labels - model.predict(public.features), float(public.labels.var())
    square = float(np.mean(away**2))
    explained = 1 - square / spread if spread > 0 else None
    root = float(np.sqrt(square))
    return NumberTest(public.file, len(away), root, float(np.mean(np.abs(away))), explained)


def _mechanism(entry: Charge) -> str:
    """Return the name of a charge's mechanism, with its epsilon and delta where it has them."""
    costs = {name: entry.mechanism[name] for name in ("epsilon", "delta") if name in entry.mechanism}
    numbers = [f"{name} = {decimal_text(float_above(Fraction(value)))}" for name, value in costs.items()]
    return ", ".join([str(entry.mechanism.get("mechanism", "a mechanism")), *numbers])


def _published(job: Job, release: Release[Model]) -> tuple[str, ...]:
    """Return what left the private side, a sentence each, and what else the written files hold."""
    sentences = [text[0].upper() + text[1:] + "." for text in release.certificate.phrases]
    sentences.append(job.learner.describe_noise(job.task))
    sentences.append("The model and the numbers of this report, computed from these releases and the features.")
    if job.public is not None:
        what = "Errors" if release.value.domain.target == "numbers" else "Accuracy and confusion"
        sentences.append(f"{what} on {job.public.file}, computed from its labels, which you declared public.")
    if job.learner.keeps_rows(release.value):
        sentences.append("The model's file contains unchanged feature rows of some records: features are public.")
    return tuple(sentences)


def _records(job: Job, path: Path) -> str:
    """Return whose labels a charge was about, in words."""
    records = f"the cohort {cohort!r}" if (cohort := job.request.scope.cohort) else "all records"
    return ", ".join(f"part {part + 1} of split {split[:8]}" for split, part in job.account.part(path)) or records


def _created(certificate: Certificate) -> str:
    """Return the time of a fit's last charge, as the ledger says it, so that a repeated fit says the same."""
    return max((str(charge.facts.get("charged", "")) for charge in certificate.entries), default="")


def budget_use(account: AccountState, certificate: Certificate, later: Iterable[Charge] = ()) -> BudgetUse:
    """Return where the budget stands: what is left is rounded down, to 0 if it is only what rounding left over.

    What was used before, and what is left, are shares of the fuller book: with delta > 0 no epsilon of what was spent
    so far is promised. A server's is the analyst's own share; what was used before this fit is what is not of this fit.

    Args:
        account: of the fit, as it is now.
        certificate: of the fit.
        later: charges that came after it.
    """
    budget = account.budget
    delta, total = float(decimal(budget.delta, "delta")), decimal(budget.epsilon, "epsilon")
    earlier = account.used(without=(*certificate.entries, *later)) * total
    left = (1 - account.used(without=later)) * total
    parts = (total, earlier, certificate.epsilon(delta), left if left > total / 10_000 else 0)
    return BudgetUse(*(CostRow(float(part), delta) for part in parts))


def _dropped(job: Job) -> tuple[Dropped, ...]:
    """Return the columns that were asked for and are not used, and what the encoder says of them."""
    names, encoder = [], job.rows.encoder
    for column in job.rows.columns:
        if column not in encoder.names:
            start = f"{LEFT_OUT}{column!r}: "
            why = [note.removeprefix(start) for note in encoder.notes if note.startswith(start)]
            names.append(Dropped(column, "; ".join(why) or "it cannot be used"))
    return tuple(names)


BINS = 20
"""Bins of equally many records: each mean is over so many that the noise is legible."""

MIN_RECORDS_IN_BIN = 25


def binned(along: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[Bin, ...]:
    """Return means of debiased values in bins of equally many records along a quantity, with normal intervals."""
    finite = np.flatnonzero(np.isfinite(along))
    order = finite[np.argsort(along[finite], kind="stable")]
    ordered = along[order]
    count = max(min(BINS, len(order) // MIN_RECORDS_IN_BIN), 1)
    # Equal quantities stay together, so that a bin does not depend on how records lie in the file.
    edges = np.unique(np.searchsorted(ordered, ordered[np.arange(1, count) * len(order) // count]))
    return tuple(_bin(along[rows], values[rows]) for rows in np.split(order, edges) if len(rows) > 1)


def _bin(along: NDArray[np.float64], values: NDArray[np.float64]) -> Bin:
    value = float(values.mean())
    half = TWO_SIDED * float(values.std(ddof=1)) / len(values) ** 0.5
    start, middle, end = float(along.min()), float(along.mean()), float(along.max())
    return Bin(start, end, len(values), middle, value, value - half, value + half)


GRID_PLACES = {1: 121, 2: 41}
"""Places along each feature at which a model is asked, for one feature and for two."""

TAIL_SHARE = 0.005
"""The share of the records beyond each end of a picture: a single far one would squeeze all the others."""

MAX_CATEGORIES = 30
"""Categories that a picture has room for."""


def _picture(model: Model, encoder: Any, features: NDArray[Any]) -> Picture | None:
    """Return what a model answers along its one feature or over its two; None for images and more features."""
    if not isinstance(encoder, TableEncoder) or len(encoder.columns) not in GRID_PLACES:
        return None
    count = GRID_PLACES[len(encoder.columns)]
    axes = tuple(_across(column, values, count) for column, values in zip(encoder.columns, features.T, strict=True))
    if not all(len(axis.places) > 1 and len(axis.names) <= MAX_CATEGORIES for axis in axes):
        return None
    table = np.stack(np.meshgrid(*(axis.places for axis in axes), indexing="ij"), axis=-1).reshape(-1, len(axes))
    numbers = model.domain.target == "numbers"
    answers = model.predict(table)[None, :] if numbers else model.predict_proba(table).T
    return Picture(axes, _shares(answers), _seen(model, features[:, 0]) if len(axes) == 1 else ())


def _across(column: Any, values: NDArray[np.float64], count: int) -> Across:
    """Return where a feature is read: between its tails, or at each of its categories."""
    if column.kind == "category":
        names = (*column.categories, *(("the rest",) if column.rest else ()))
        return Across(column.name, column.kind, tuple(map(float, range(len(names)))), names)
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, [TAIL_SHARE, 1 - TAIL_SHARE])
    low, high = (low, high) if low < high else (finite.min(), finite.max())
    return Across(
        column.name, column.kind, tuple(np.linspace(low, high, 2 if column.kind == "boolean" else count).tolist())
    )


def _seen(model: Model, feature: NDArray[np.float64]) -> tuple[Bin, ...]:
    """Return what released labels say along a feature; nothing where a chart has no place for it."""
    evaluation = model.evaluation
    assert evaluation is not None and evaluation.rows is not None
    if isinstance(evaluation, SummedErrors):
        return ()
    labels = debias(evaluation.release.mechanism, evaluation.release.value).values
    if isinstance(evaluation, DebiasedErrors):
        return binned(feature[evaluation.rows], labels)
    return binned(feature[evaluation.rows], labels[:, 1]) if model.domain.size == 2 else ()
