"""Scores of a model that saw no labels: held on large data, exact where it is said, refused where sums do not tell."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.metrics import average_precision_score, brier_score_loss, f1_score, log_loss, recall_score, roc_auc_score

import labeldp as ldp
from inference.simulated import SURE, held, released, response
from labeldp import inference
from labeldp.inference import area_terms, fieller
from labeldp.inference.curves import precision_terms, ratio_of_pairs
from labeldp.mechanisms import LocalHashing
from labeldp.privacy import InputError, NotInvertibleError, Release

RNG = np.random.default_rng(8)
N = 40_000
SCORES = RNG.normal(size=N)
CHANCE = expit(1.5 * SCORES - 1)
LABELS = (RNG.random(N) < CHANCE).astype(int)
GROUPS = RNG.choice(["north", "south"], N, p=[0.7, 0.3])
MODEL = ldp.Public(expit(1.3 * SCORES - 1.1), why="trained on other records")


def scores(**options: Any) -> inference.Scores:
    return inference.evaluate(released(LABELS, response(2, 2.0)), MODEL, **{"level": SURE, **options})


def test_scores_are_those_that_true_labels_would_show() -> None:
    predicted, found = MODEL.value > 0.5, scores()
    assert held(found.accuracy(), (predicted == LABELS).mean())
    assert held(found.recall(), recall_score(LABELS, predicted, average=None))
    assert held(found.precision(), [1 - LABELS[~predicted].mean(), LABELS[predicted].mean()])
    assert held(found.f1(), f1_score(LABELS, predicted, average=None))
    assert held(found.auc(), roc_auc_score(LABELS, MODEL.value))
    assert held(found.average_precision(), average_precision_score(LABELS, MODEL.value))
    assert held(found.log_loss(), log_loss(LABELS, MODEL.value))
    assert held(found.brier(), 2 * brier_score_loss(LABELS, MODEL.value))
    confusion = found.confusion()
    truth = [[np.mean((a == LABELS) & (predicted == b)) for b in (0, 1)] for a in (0, 1)]
    assert held(confusion, np.array(truth)) and confusion.value.sum() == pytest.approx(1)
    for estimate in (found.accuracy(), found.recall(), found.auc(), found.brier()):
        assert (np.asarray(estimate.high) - estimate.low < 0.25).all()
        assert (
            "the probabilities were not computed from these labels (trained on other records)" in estimate.assumptions
        )


def test_scores_and_gaps_of_groups() -> None:
    by_group = scores(groups=GROUPS)
    for name in ("accuracy", "auc", "recall", "precision", "log_loss"):
        estimate = getattr(by_group, name)()
        assert estimate.axes[0] == ("group", ("north", "south"))
        alone = GROUPS == "south"
        whole = getattr(
            inference.evaluate(
                Release(
                    released(LABELS, response(2, 2.0)).value[alone],
                    released(LABELS, response(2, 2.0)).certificate,
                    response(2, 2.0),
                ),
                ldp.Public(MODEL.value[alone], why="other records"),
            ),
            name,
        )()
        assert estimate.value[1] == pytest.approx(whole.value)
    gap = by_group.gap("recall").at(**{"class": 1})
    predicted = MODEL.value > 0.5
    recalls = [recall_score(LABELS[name == GROUPS], predicted[name == GROUPS]) for name in ("south", "north")]
    assert held(gap, [recalls[0] - recalls[1]]) and gap.axes == (("group", ("south",)),)
    assert by_group.gap("accuracy", reference="south").value[0] == pytest.approx(-by_group.gap("accuracy").value[0])
    with pytest.raises(InputError, match="reference must be one of the groups north, south"):
        by_group.gap("auc", reference="east")
    with pytest.raises(InputError, match="groups must be given to evaluate"):
        scores().gap("auc")


def test_calibration_is_exact_and_bins_follow_the_predictions() -> None:
    found = scores().calibration(bins=5)
    assert found.records.tolist() == [8000] * 5 and np.all(np.diff(found.predicted) > 0)
    bins = np.argsort(np.argsort(MODEL.value)) // 8000
    assert held(found.observed, [LABELS[bins == place].mean() for place in range(5)])
    assert found.observed.guarantee == "exact" and found.observed.simultaneous


def test_the_area_is_the_share_of_ordered_pairs() -> None:
    """By hand: true labels in place of unbiased indicators, with a tie."""
    labels, marks = np.array([0.0, 1, 0, 1, 1]), np.array([0.1, 0.1, 0.3, 0.5, 0.2])
    ordered, pairs = area_terms(labels, marks).statistics
    assert ordered / pairs == pytest.approx(roc_auc_score(labels, marks)) and pairs == pytest.approx(6 / 20)


def test_several_classes_and_sets_of_classes() -> None:
    rng = np.random.default_rng(0)
    chances = rng.dirichlet(np.ones(4), size=N)
    labels = (rng.random((N, 1)) > chances.cumsum(axis=1)[:, :3]).sum(axis=1)
    model = ldp.Public(chances, why="the law itself")
    for mechanism in (response(4, 3.0), LocalHashing(domain=ldp.Classes(4), epsilon=3.0)):
        found = inference.evaluate(released(labels, mechanism), model, level=SURE)
        predicted = chances.argmax(axis=1)
        assert held(found.accuracy(), (predicted == labels).mean()) and found.accuracy().guarantee == "exact"
        assert held(found.recall(), recall_score(labels, predicted, average=None))
        other = ldp.Public(np.zeros(N, dtype=int), why="a constant")
        gain = inference.compare(released(labels, mechanism), ldp.Public(predicted, why="the law"), other, level=SURE)
        assert held(gain, (predicted == labels).mean() - (labels == 0).mean()) and gain.guarantee == "asymptotic"
        with pytest.raises(InputError, match="two classes for an area"):
            found.auc()


def test_two_models_are_compared_where_they_differ() -> None:
    one, other = (
        ldp.Public((MODEL.value > 0.5).astype(int), why="made elsewhere"),
        ldp.Public(np.zeros(N, dtype=int), why="a constant"),
    )
    release = released(LABELS, response(2, 2.0))
    gain = inference.compare(release, one, other, level=SURE)
    truth = (one.value == LABELS).mean() - (LABELS == 0).mean()
    assert held(gain, truth) and gain.guarantee == "exact" and gain.high - gain.low < 0.1
    assert inference.compare(release, other, one, level=SURE).value == pytest.approx(-gain.value)
    same = inference.compare(release, one, one, target="records")
    assert same.value == same.high == 0 and 0 < inference.compare(release, one, one).high < 1e-3
    assert inference.compare(release, one, other, users=np.arange(N) // 2).guarantee == "asymptotic"
    with pytest.raises(InputError, match=r'other must be Public\(array, why="…"\)'):
        inference.compare(release, one, other.value)


def test_a_comparison_is_covered_for_every_number_of_records() -> None:
    mechanism, records = response(2, 1.0), 20
    zeros, ones = (ldp.Public(np.full(records, code), why="constant") for code in (0, 1))
    certificate = released(np.zeros(4, dtype=int), mechanism).certificate
    answers = [
        Release((np.arange(records) < hits).astype(np.uint8), certificate, mechanism) for hits in range(records + 1)
    ]
    estimates = [inference.compare(release, ones, zeros) for release in answers]
    for share in (0.0, 0.1, 0.5):
        rate = 1 - mechanism.keep_probability + (2 * mechanism.keep_probability - 1) * share
        law = binom.pmf(np.arange(records + 1), records, rate)
        assert sum(mass for mass, one in zip(law, estimates, strict=True) if held(one, 2 * share - 1)) >= 0.95


def test_users_widen_scores() -> None:
    users = np.repeat(np.arange(N // 40), 40)
    labels = np.repeat(LABELS[: N // 40], 40)
    model = ldp.Public(np.repeat(MODEL.value[: N // 40], 40), why="other records")
    release = released(labels, response(2, 3.0))
    clustered, single = (inference.evaluate(release, model, users=one) for one in (users, None))
    for name in ("accuracy", "auc", "brier"):
        a, b = getattr(clustered, name)(), getattr(single, name)()
        assert a.high - a.low > 2 * (b.high - b.low) and a.guarantee == "asymptotic"


def test_counts_by_predicted_class_are_one_release() -> None:
    predicted = ldp.Public((MODEL.value > 0.5).astype(int), why="trained on other records")
    release = released(LABELS, inference.plan_sums("evaluate", ldp.Classes(2), 1.0, predictions=predicted))
    assert "not computed from these labels: trained on other records" in release.certificate.at(0)
    found = inference.evaluate(release, MODEL, level=SURE)
    flags = predicted.value == 1
    assert held(found.accuracy(), (flags == LABELS).mean())
    assert (
        held(found.precision(), [1 - LABELS[~flags].mean(), LABELS[flags].mean()])
        and found.precision().guarantee == "exact"
    )
    assert held(found.recall(), recall_score(LABELS, flags, average=None)) and found.recall().high[1] < 0.8
    for name in ("brier", "log_loss", "confusion", "f1", "calibration"):
        with pytest.raises(NotInvertibleError, match="release answers one by one"):
            getattr(found, name)()
    with pytest.raises(InputError, match="plan_sums\\('auc'"):
        found.auc()


@pytest.mark.parametrize("users", [None, np.arange(N) // 2])
def test_curves_are_those_that_true_labels_would_show(users: Any) -> None:
    found = scores(level=1 - 1e-12, users=users)
    for curve, names in (
        (found.roc(8), ("false-positive rate", "true-positive rate")),
        (found.precision_recall(8), ("recall", "precision")),
    ):
        flags = MODEL.value[:, None] >= curve.thresholds
        hits, positives = (flags * LABELS[:, None]).sum(axis=0), LABELS.sum()
        recall, wrong = hits / positives, (flags.sum(axis=0) - hits) / (N - positives)
        truth = (wrong, recall) if names[1] == "true-positive rate" else (recall, hits / flags.sum(axis=0))
        for name, estimate, true in zip(names, (curve.across, curve.up), truth, strict=True):
            assert estimate.quantity == name and held(estimate, true) and estimate.simultaneous
            assert (estimate.high - estimate.low)[1:].max() < 0.5 and len(estimate.value) == len(curve.thresholds) == 8
        assert (np.diff(curve.thresholds) < 0).all() and curve.thresholds[-1] == MODEL.value.min()
    exact = "exact" if users is None else "asymptotic"
    assert found.precision_recall(3).up.guarantee == exact and found.roc(3).up.guarantee == "asymptotic"


def test_average_precision_of_true_indicators_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    for digits in (1, 2, 9):
        marks = rng.random(400).round(digits)
        labels = (rng.random(400) < marks**2).astype(float)
        top, bottom = precision_terms(labels, marks).statistics
        assert top / bottom == pytest.approx(average_precision_score(labels, marks))


def test_average_precision_is_unbiased_over_the_noise_and_its_terms_are_its_slopes() -> None:
    """All 2^5 answers about five records, with ties: added up over their law, exactly."""
    marks, labels, keep = np.array([0.1, 0.4, 0.4, 0.7, 0.9]), np.array([0, 1, 0, 1, 0]), 0.7
    mean = np.zeros(2)
    for answer in np.ndindex(*[2] * 5):
        law = np.prod(np.where(np.array(answer) == labels, keep, 1 - keep))
        mean += law * precision_terms((np.array(answer) - (1 - keep)) / (2 * keep - 1), marks).statistics
    assert mean == pytest.approx([average_precision_score(labels, marks) * 2 / 5, 2 / 5])
    rng = np.random.default_rng(4)
    second, marks = rng.normal(0.3, 1, 60), rng.random(60)
    pairs = precision_terms(second, marks)
    terms, statistics = np.empty((60, 2)), pairs.statistics
    terms[pairs.order] = pairs.of(slice(None))
    for record in (0, 17, 59):  # a record more of this kind moves the sum by about its term
        more = precision_terms(np.append(second, second[record]), np.append(marks, marks[record])).statistics * 61
        assert more[0] - 60 * statistics[0] == pytest.approx(terms[record, 0], abs=0.35)
        assert more[1] - 60 * statistics[1] == pytest.approx(terms[record, 1])


def test_the_skew_of_noise_adds_up_pairs_of_records() -> None:
    """By its definition: 4 v^2 times the sum over pairs of both slopes and of how much the product of both weighs."""
    rng = np.random.default_rng(6)
    marks, second = rng.integers(0, 6, 12).astype(float), rng.normal(0.4, 1, 12)
    top, bottom = precision_terms(second, marks).statistics
    ratio, noise = np.clip(top / bottom, 0, 1), (second**2).mean() - second.mean()

    def excess(values: np.ndarray) -> float:
        return float(12 * precision_terms(values, marks).statistics @ [1, -ratio])

    unit = np.eye(12)
    slopes = np.array([(excess(second + step) - excess(second - step)) / 2 for step in unit])
    pairs = [
        slopes[i] * slopes[j] * (excess(unit[i] + unit[j]) - excess(unit[i]) - excess(unit[j]))
        for i in range(12)
        for j in range(i)
    ]
    assert precision_terms(second, marks).noise_skew == pytest.approx(4 * noise**2 * sum(pairs))
    labels = (second > 0.4).astype(float)
    assert precision_terms(labels, marks).noise_skew == 0, "true labels have no noise"


def test_few_positives_widen_the_interval_of_an_area() -> None:
    """By Student's quantile at 2 n / (kurtosis - 1) degrees of freedom, and by the third moment towards the low end."""
    rng = np.random.default_rng(9)
    marks = rng.random(300)
    labels = (rng.random(300) < 0.3 * marks**6).astype(float)
    pairs = area_terms(labels, marks)
    value, low, high, variance = ratio_of_pairs(pairs, None, 0.95)
    terms = pairs.of(slice(None)) @ [1, -value]
    centered = terms - terms.mean()
    kurtosis = (centered**4).mean() / (centered**2).mean() ** 2
    freedom = 2 * 300 / (kurtosis - 1)
    covariance = np.cov(pairs.of(slice(None)).T) / 300
    skew = (centered**3).sum() / (centered**2).sum() / 300
    assert freedom < 30 and skew < 0
    usual = fieller(pairs.statistics, covariance, 0.95, freedom, (skew, 0.0))
    # more positives below all negatives: as many as let an end be that of Poisson's law where none occurred
    more = (np.sqrt(1.959964**2 - 4 * np.log(0.025)) - 1.959964) ** 2 / 4
    move = (np.array([0, 1 - labels.mean()]) - pairs.of(slice(None)).mean(axis=0)) / (300 + more)
    added = fieller(pairs.statistics + more * move, covariance + more * np.outer(move, move), 0.95)
    np.testing.assert_allclose((low, high), (min(usual[0], added[0]), usual[1]), rtol=1e-6)
    alone = ratio_of_pairs(pairs, np.arange(300), 0.95)
    assert alone == pytest.approx((value, low, high, variance)), "users with a record each"
    plain = fieller(pairs.statistics, covariance, 0.95)
    assert low < plain[0] - 0.02 and high > plain[1] and added[0] < usual[0]
    noisy = precision_terms(((rng.random(300) < 0.2 + 0.5 * marks) - 0.2) / 0.6, marks)
    ends = ratio_of_pairs(noisy, None, 0.95)
    assert noisy.noise_skew > 0
    assert ratio_of_pairs(noisy._replace(noise_skew=0.0), None, 0.95)[2] < ends[2] - 0.01, "the high end is wider"


@pytest.mark.parametrize("terms_of", [area_terms, precision_terms])
@pytest.mark.parametrize("size", [7, 64])
def test_areas_are_the_same_in_blocks_of_any_size(terms_of: Any, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties may reach over several blocks."""
    rng = np.random.default_rng(5)
    for records, values in ((1, 1), (7, 2), (50, 1), (333, 5), (333, 1000)):
        marks, second = rng.integers(0, values, records).astype(float), rng.normal(size=records)
        monkeypatch.undo()
        whole = terms_of(second, marks)
        expected = whole.of(slice(None))
        monkeypatch.setattr("labeldp.inference.curves.BLOCK", size)
        blocks = terms_of(second, marks)
        assert blocks.statistics == pytest.approx(whole.statistics)
        for rows in (slice(None), slice(0, 1), *([slice(3, 40), slice(7, 14)] if records > 40 else [])):
            np.testing.assert_allclose(blocks.of(rows), expected[rows], atol=1e-9)


def test_curves_need_two_classes_and_answers_of_all_records() -> None:
    predicted = ldp.Public((MODEL.value > 0.5).astype(int), why="trained on other records")
    sums = inference.evaluate(
        released(LABELS, inference.plan_sums("evaluate", ldp.Classes(2), 1.0, predictions=predicted)), MODEL
    )
    three = ldp.Public(np.full((30, 3), 1 / 3), why="made up")
    many = inference.evaluate(released(np.zeros(30, dtype=int), response(3)), three)
    for name in ("roc", "precision_recall", "average_precision"):
        with pytest.raises(NotInvertibleError, match="release answers one by one"):
            getattr(sums, name)()
        with pytest.raises(InputError, match="release must be of two classes"):
            getattr(many, name)()
    with pytest.raises(InputError, match="groups must be left out for a curve"):
        scores(groups=GROUPS).roc()
    assert scores(groups=GROUPS).average_precision().axes[0][1] == ("north", "south")


@pytest.mark.slow
@pytest.mark.parametrize(("records", "epsilon"), [(500, 1.0), (2000, 2.0)])
def test_average_precision_is_covered(records: int, epsilon: float) -> None:
    """Of 2,000 runs; a coverage of 94 % is refused with a probability below 1e-12."""
    rng, runs, covered = np.random.default_rng(records), 2000, 0
    mechanism = response(2, epsilon)
    certificate = released(np.zeros(4, dtype=int), mechanism).certificate
    chances = expit(-2 + 1.5 * np.sort(rng.normal(size=200_000)))
    precision = np.cumsum(chances[::-1])[::-1] / np.arange(len(chances), 0, -1)
    truth = (chances @ precision) / chances.sum()
    for _ in range(runs):
        x = rng.normal(size=records)
        labels = (rng.random(records) < expit(-2 + 1.5 * x)).astype(np.uint8)
        release = Release(mechanism.randomize(labels, rng=rng), certificate, mechanism)
        covered += held(inference.evaluate(release, ldp.Public(expit(x), why="drawn")).average_precision(), truth)
    assert covered >= binom.ppf(1e-12, runs, 0.94)


def test_a_confusion_is_covered_where_answers_tell_little() -> None:
    """Of 400 runs, a coverage of 87 % of an entry, as with a center that is clipped, passes once in a hundred."""
    plan, rng, covered = response(2, 0.5), np.random.default_rng(6), np.zeros((2, 2))
    truth = np.array([[0.024, 0.006], [0.194, 0.776]])
    certificate = released(np.zeros(200, dtype=int), plan).certificate
    for _ in range(400):
        labels, predicted = np.divmod(rng.choice(4, 200, p=truth.ravel()), 2)
        release = Release(plan.randomize(labels.astype(np.uint8), rng=rng), certificate, plan)
        model = ldp.Public(predicted.astype(float), why="made up")
        confusion = inference.evaluate(release, model, simultaneous=False).confusion()
        covered += (confusion.low <= truth) & (truth <= confusion.high)
    assert covered.min() >= binom.ppf(0.99, 400, 0.87)


def test_an_area_is_two_sums() -> None:
    plan = inference.plan_sums("auc", ldp.Classes(2), 1.0, scores=MODEL)
    release = released(LABELS, plan)
    estimate = inference.evaluate(release, MODEL).auc()
    assert abs(estimate.value - roc_auc_score(LABELS, MODEL.value)) < 0.004 and estimate.high - estimate.low < 0.02
    assert release.certificate.epsilon(0) == 1
    with pytest.raises(InputError, match="same scores"):
        inference.evaluate(release, ldp.Public(1 - MODEL.value, why="other records")).auc()


@pytest.mark.parametrize(
    ("probabilities", "sentence"),
    [
        (MODEL.value, r'probabilities must be Public\(array, why="…"\): say why'),
        (ldp.Public(MODEL.value[:3], why="short"), "probabilities must be a row for each record"),
        (ldp.Public(np.full((N, 2), 0.7), why="wrong"), "probabilities must be at least 0, in rows that sum to 1"),
        (ldp.Public(np.full(N, np.nan), why="wrong"), "and finite"),
    ],
)
def test_bad_probabilities(probabilities: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        inference.evaluate(released(LABELS, response()), probabilities)


@pytest.mark.slow
@pytest.mark.parametrize(("records", "epsilon"), [(500, 1.0), (500, 2.0), (2000, 0.5)])
def test_the_area_is_covered_where_positives_are_rare(records: int, epsilon: float) -> None:
    """About 7 % are positive. Of 2,000 runs; a false alarm of a coverage of 95 % has a probability below 1e-6."""
    rng, runs, covered = np.random.default_rng(records), 2000, 0
    mechanism = response(2, epsilon)
    certificate = released(np.zeros(4, dtype=int), mechanism).certificate
    marks = rng.normal(size=200_000)
    chances = expit(-3.4 + 1.5 * marks)
    order = np.argsort(marks)
    below = np.cumsum((1 - chances)[order])
    truth = (chances[order] * (below - (1 - chances)[order] / 2)).sum() / chances.sum() / (1 - chances).sum()
    for seed in range(runs):
        x = rng.normal(size=records)
        labels = (rng.random(records) < expit(-3.4 + 1.5 * x)).astype(np.uint8)
        noisy = mechanism.randomize(labels, rng=np.random.default_rng(seed))
        found = inference.evaluate(Release(noisy, certificate, mechanism), ldp.Public(expit(x), why="drawn"))
        covered += held(found.auc(), truth)
    assert covered >= binom.ppf(1e-6, runs, 0.95)
