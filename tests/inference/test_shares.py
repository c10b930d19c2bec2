"""Shares, means and quantiles: coverage added up over the law of the answers, refusals, users, what is shown."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import labeldp as ldp
from inference.simulated import SURE, held, released, response
from labeldp import inference
from labeldp.mechanisms import DiscreteLaplace, Interval, ResponseOnBins, UnbiasedNumbers
from labeldp.privacy import InputError, NotInvertibleError, Release

NUMBERS = Interval(0, 1, grid=101)


def with_hits(mechanism: Any, hits: int, records: int) -> Any:
    """A release in which so many answers are the last one."""
    template = released(
        np.zeros(records, dtype=int) if mechanism.domain == ldp.Classes(2) else np.zeros(records), mechanism
    )
    return Release((np.arange(records) < hits).astype(np.uint8), template.certificate, mechanism)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_share_is_covered_for_every_number_of_records(epsilon: float) -> None:
    """The whole law of 30 answers, through the function itself."""
    mechanism, records = response(2, epsilon), 30
    estimates = [inference.mean(with_hits(mechanism, hits, records), outcome=1) for hits in range(records + 1)]
    for share in (0.0, 0.01, 0.05, 0.3, 0.9, 1.0):
        rate = 1 - mechanism.keep_probability + (2 * mechanism.keep_probability - 1) * share
        law = binom.pmf(np.arange(records + 1), records, rate)
        assert sum(mass for mass, one in zip(law, estimates, strict=True) if held(one, share)) >= 0.95
        value = sum(mass * one.value for mass, one in zip(law, estimates, strict=True))
        assert value == pytest.approx(share, abs=1e-9), "unbiased"
    assert estimates[0].guarantee == "exact"


def test_a_mean_of_two_outputs_is_covered_for_every_number_of_records() -> None:
    mechanism, records = UnbiasedNumbers(domain=NUMBERS, epsilon=0.5), 25
    assert len(mechanism.outputs) == 2
    estimates = [inference.mean(with_hits(mechanism, hits, records)) for hits in range(records + 1)]
    for label in (0, 3, 50):
        law = binom.pmf(np.arange(records + 1), records, mechanism.matrix()[label, 1])
        assert sum(mass for mass, one in zip(law, estimates, strict=True) if held(one, label / 100)) >= 0.95


MECHANISMS = [
    response(5, 2.0),
    ldp.mechanisms.LocalHashing(domain=ldp.Classes(5), epsilon=2.0),
    ldp.mechanisms.SubsetSelection(domain=ldp.Classes(5), epsilon=2.0),
    ldp.mechanisms.UnaryEncoding(domain=ldp.Classes(5), epsilon=2.0),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
def test_shares_of_classes_and_groups_are_held_and_add_up(mechanism: Any) -> None:
    rng = np.random.default_rng(1)
    labels, groups = rng.choice(5, 60_000, p=[0.05, 0.15, 0.2, 0.25, 0.35]), rng.choice(["a", "b"], 60_000)
    release = released(labels, mechanism)
    whole, by_group = inference.mean(release, level=SURE), inference.mean(release, groups=groups, level=SURE)
    assert held(whole, np.bincount(labels) / 60_000)
    assert by_group.value.shape == (2, 5) and by_group.simultaneous
    assert by_group.axes == (("group", ("a", "b")), ("class", ("0", "1", "2", "3", "4")))
    assert (by_group.high - by_group.low > whole.high - whole.low).all()
    one = inference.mean(release, outcome=3, level=SURE)
    assert one.value == pytest.approx(whole.value[3]) and one.low > whole.low[3], "one interval alone is narrower"
    middle = inference.quantile(release)
    assert middle.low <= 3 <= middle.high and middle.low >= 2


def test_noisy_labels_are_not_taken_as_true() -> None:
    labels = np.repeat([0, 1], [9500, 500])
    release = released(labels, response())
    assert held(inference.mean(release, outcome=1, level=SURE), 0.05)
    assert not held(inference.mean(release, outcome=1), release.value.mean())


def test_the_target_may_be_these_records() -> None:
    release = released(np.repeat([0, 1], [900, 100]), response(2, 3.0))
    population, records = (
        inference.mean(release, outcome=1, target=target, level=SURE) for target in ("population", "records")
    )
    assert records.stderr < population.stderr and records.high - records.low < population.high - population.low
    assert held(records, 0.1) and records.noise_share is None


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("kind", [DiscreteLaplace, UnbiasedNumbers])
def test_means_of_numbers(kind: Any, epsilon: float) -> None:
    labels = np.round(np.random.default_rng(2).random(4000) ** 3, 2)
    estimate = inference.mean(released(labels, kind(domain=NUMBERS, epsilon=epsilon)), level=SURE)
    assert held(estimate, labels.mean()) and estimate.high - estimate.low < 0.6
    if kind is DiscreteLaplace:
        sampling = labels.var() / 4000
        assert estimate.noise_share == pytest.approx(1 - sampling / estimate.stderr**2, abs=0.15)


def test_few_numbers_have_a_betting_interval() -> None:
    labels = np.round(np.random.default_rng(2).random(300) ** 3, 2)
    release = released(labels, DiscreteLaplace(domain=NUMBERS, epsilon=4.0))
    estimate = inference.mean(release, level=SURE)
    assert estimate.guarantee == "finite sample" and held(estimate, labels.mean())
    assert any("order of records" in condition for condition in estimate.assumptions)
    assert inference.mean(release, method="normal").guarantee == "asymptotic"


def test_quantiles_of_bins() -> None:
    labels = np.round(np.random.default_rng(2).random(20_000), 2)
    release = released(labels, ResponseOnBins(domain=NUMBERS, epsilon=2.0, bins=10))
    for at in (0.25, 0.5, 0.9):
        estimate = inference.quantile(release, at=at, level=SURE)
        assert held(estimate, at) and estimate.high - estimate.low < 0.5 and estimate.guarantee == "exact"
    assert inference.mean(release).axes[0][0] == "bin"


def test_users_with_several_records_have_wider_intervals_and_no_exact_one() -> None:
    users = np.repeat(np.arange(100), 20)
    labels = np.repeat(np.random.default_rng(3).random(100) < 0.3, 20).astype(int)
    release = released(labels, response(2, 3.0))
    clustered, single = inference.mean(release, outcome=1, users=users), inference.mean(release, outcome=1)
    assert clustered.high - clustered.low > 2 * (single.high - single.low) and clustered.guarantee == "asymptotic"
    assert clustered.method.endswith("with errors clustered by user")
    with pytest.raises(InputError, match="method cannot be exact: users have several records"):
        inference.mean(release, users=users, method="exact")
    assert inference.mean(release, outcome=1, users=np.arange(2000)).guarantee == "exact"
    by_group = inference.mean(release, outcome=1, users=users, groups=np.tile([0, 1], 1000))
    assert by_group.value.mean() == pytest.approx(clustered.value)


def test_clusters_are_added_up_by_hand() -> None:
    release = released(np.array([0, 1, 1, 0]), response(2, 2.0))
    estimate = inference.mean(release, outcome=1, users=np.array([7, 7, 9, 9]), groups=None)
    terms = release.mechanism.unbiased(release.value).values[:, 1]
    apart = (terms - terms.mean()).reshape(2, 2).sum(axis=1)
    assert estimate.stderr**2 == pytest.approx(2 / 1 * (apart**2).sum() / 16)


def test_the_curator_who_protects_users_wants_to_know_them() -> None:
    users = np.repeat(np.arange(50), 2)
    curator = ldp.Curator(np.zeros(100, dtype=int), domain=ldp.Classes(2), budget=ldp.Budget(8), users=users)
    release = curator.release(response(2, 1.0), rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="users must be given: the release protects users with several records"):
        inference.mean(release)
    assert inference.mean(release, users=users).guarantee == "asymptotic"


REFUSED = [
    ({"outcome": "maybe"}, "outcome must be one of the classes 0, 1"),
    ({"groups": [1, 2]}, "groups must be one entry for each of the 40 records"),
    ({"level": 95}, "level must lie between 0 and 1, such as 0.95"),
    ({"target": "all"}, "target must be one of population, records"),
    ({"method": "bootstrap"}, "method must be one of auto, exact, normal"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_bad_input_is_one_sentence_and_costs_nothing(options: dict[str, Any], sentence: str) -> None:
    curator = ldp.Curator(np.zeros(40, dtype=int), domain=ldp.Classes(2), budget=ldp.Budget(1))
    release = curator.release(response(), rng=np.random.default_rng(0))
    before = curator.ledger.spent.epsilon(0)
    with pytest.raises(InputError, match=sentence):
        inference.mean(release, **options)
    after = curator.ledger.spent.epsilon(0)
    assert before == after


def test_what_has_no_answer_is_refused_with_what_to_release() -> None:
    numbers = released(np.zeros(40), UnbiasedNumbers(domain=NUMBERS, epsilon=0.5))
    with pytest.raises(NotInvertibleError, match=r"has no quantiles: .* Release bins by ResponseOnBins"):
        inference.quantile(numbers)
    prior = ldp.Public(np.tile([0.9, 0.05, 0.05], (40, 1)), why="made up")
    few = released(
        np.zeros(40, dtype=int),
        ldp.mechanisms.RandomizedResponseWithPrior(domain=ldp.Classes(3), epsilon=1.0, prior=prior),
    )
    with pytest.raises(NotInvertibleError, match="fewer candidates than classes"):
        inference.mean(few)
    for other in (None, np.zeros(3), numbers.map(lambda value: value)):
        with pytest.raises(InputError, match=r"release must be what Curator\.release returned"):
            inference.mean(other)
    with pytest.raises(InputError, match="at must lie between 0 and 1"):
        inference.quantile(numbers, at=1)


def test_an_estimate_says_one_sentence_and_makes_a_table_and_a_plot() -> None:
    release = released(np.repeat([0, 1], [180, 20]), response(2, 3.0))
    estimate = inference.mean(release, outcome=1)
    assert str(estimate).startswith("share of 1 0.") and "exact: Clopper-Pearson" in str(estimate)
    assert "of whose variance" in str(estimate) and str(estimate).count(". ") == 0
    table = inference.mean(release, groups=np.tile(["a", "<b>"], 100)).table()
    assert table.num_rows == 4 and table.column_names[:4] == ["quantity", "group", "class", "value"]
    plot = inference.mean(release, groups=np.tile(["a", "<b>"], 100)).plot()
    assert plot.startswith("<svg") and plot.count("<circle") == 4 and "&lt;b&gt;" in plot and "<b>" not in plot
    assert estimate.plot().count("<circle") == 1
    assert estimate.certificate is release.certificate
    with pytest.raises(InputError, match="'color' is no axis"):
        estimate.at(color="red")
    with pytest.raises(InputError, match="class has no 7 among its names"):
        inference.mean(release).at(**{"class": 7})
    assert "value" not in repr(estimate).replace("values", "")


def test_the_default_of_every_estimator_is_in_one_table() -> None:
    assert {rule.guarantee for rule in inference.RULES.values()} == {"exact", "finite sample", "asymptotic", "anytime"}
