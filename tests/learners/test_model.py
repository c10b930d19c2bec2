"""What a fitted model can do by itself, and its evaluation where one user has several records."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from skops import io

import labeldp as ldp
from labeldp.curator import Curator
from labeldp.learners import Model
from labeldp.learners.model import assigned, label_epsilon
from labeldp.privacy import Unit, total_loss
from learners.data import blobs
from learners.data import curator as holding

SIMULATED = np.random.default_rng

USERS = np.random.default_rng(7).permutation(np.repeat(np.arange(120), [1, 2, 3, 4] * 30))

FEATURES = np.random.default_rng(8).normal(size=(len(USERS), 4))

LABELS = (FEATURES[:, 0] > 0).astype(int)


def curator(users: Any = USERS, labels: Any = LABELS, domain: Any = None) -> Curator:
    budget = ldp.Budget(epsilon=8, delta=0.01)
    return Curator(labels, domain=domain or ldp.Classes(2), budget=budget, users=users)


@pytest.mark.guarantee("labeldp.learners:fit_linear", "users")
@pytest.mark.parametrize("delta", [0, 1e-5])
@pytest.mark.parametrize("numbers", [False, True])
def test_sums_of_all_labels_of_each_user(delta: float, numbers: bool) -> None:
    holder = curator(domain=ldp.Interval(0, 1, grid=9) if numbers else None)
    seen: list[Any] = []
    rng = np.random.default_rng(0)
    with holder.subscribe(lambda event: seen.append((event.step, len(event.rows), event.release.mechanism))):
        release = ldp.fit_linear(FEATURES, holder, epsilon=4, delta=delta, rng=rng, evaluation=0.25)
    certificate = release.certificate
    assert certificate.neighbors is Unit.ONE_USER
    assert certificate.epsilon(delta) <= 4 and certificate.epsilon(delta) > 3.99
    assert total_loss(holder.ledger.charges).within(4, delta)
    *_, (_, trained, sums), (_, answered, _) = seen
    assert sums.protected is not None and sums.protected.count + answered == 120  # one label of each held-out user
    assert trained > sums.protected.count
    assert len(np.unique(USERS[release.value.evaluation.rows])) == answered == 30


def test_users_with_one_record_each_are_learned_from_as_records_are() -> None:
    rng, everyone = np.random.default_rng(0), np.arange(len(LABELS))
    own, plain = (ldp.fit_linear(FEATURES, curator(each), epsilon=4, delta=1e-5, rng=rng) for each in (everyone, None))
    assert own.certificate.entries[0].loss == plain.certificate.entries[0].loss
    assert (own.value.predict(FEATURES) == LABELS).mean() > 0.8


def test_heavy_users_get_less_weight_where_that_helps() -> None:
    rng = np.random.default_rng(1)
    users = np.concatenate([np.zeros(300, dtype=int), 1 + np.arange(600)])
    features = rng.normal(size=(900, 3))
    holder = curator(users, (features[:, 0] > 0).astype(int))
    seen: list[Any] = []
    with holder.subscribe(lambda event: seen.append(event.release.mechanism)):
        ldp.fit_linear(features, holder, epsilon=1, delta=1e-5, rng=rng)
    rows = np.linalg.norm(seen[0].values(), axis=1)
    assert rows[:300].sum() < 10 * np.median(rows[300:])
    with_all = 300 * np.median(np.linalg.norm(features, axis=1))
    assert seen[0].noise_stddev < 0.1 * with_all


def test_cells_cost_a_user_epsilon() -> None:
    holder = curator()
    release = ldp.fit_cells(FEATURES, holder, epsilon=4, rng=np.random.default_rng(0), evaluation=0.25)
    assert release.certificate.neighbors is Unit.ONE_USER
    assert total_loss(holder.ledger.charges).within(4, 0) and not total_loss(holder.ledger.charges).within(2.9, 0)


def test_stages_keep_a_user_together() -> None:
    holder = curator()
    release = ldp.fit_multistage(FEATURES, holder, epsilon=0.5, stages=2, rng=np.random.default_rng(0))
    assert release.certificate.neighbors is Unit.ONE_USER
    assert holder.ledger.spent.epsilon() == 2  # four labels
    kept, rows = curator().limited(1)
    again = ldp.fit_multistage(FEATURES[rows], kept, epsilon=0.5, stages=1, rng=np.random.default_rng(0))
    assert again.certificate.epsilon() == 0.5


def test_what_records_are_assigned_is_one_thing_for_a_user() -> None:
    parts = assigned(curator(), lambda count: np.arange(count) % 3)
    assert all(len(np.unique(parts[user == USERS])) == 1 for user in range(120))
    assert np.array_equal(assigned(curator(None), np.arange), np.arange(len(USERS)))


def test_a_label_gets_its_share_of_what_a_user_pays() -> None:
    assert label_epsilon(curator(), 2) == 0.5
    assert label_epsilon(curator(None), 2) == 2
    assert label_epsilon(curator().limited(3)[0], 1) <= 1 / 3


def test_a_fit_that_the_budget_does_not_admit_for_users_charges_nothing() -> None:
    holder = curator()
    with pytest.raises(ldp.BudgetExceeded):
        ldp.fit_multistage(FEATURES, holder, epsilon=3, stages=2, rng=np.random.default_rng(0))
    assert not holder.ledger.charges


def of_classes(classes: int = 2, **options: Any) -> tuple[ldp.Release[Model], Any, Any]:
    """A model, its features and its true labels."""
    features, labels = blobs(600, classes)
    arguments: dict[str, Any] = {"classifier": LogisticRegression(), "epsilon": 3, "rng": SIMULATED(0)}
    return ldp.fit_multistage(features, holding(labels, classes, 3.0), **arguments | options), features, labels


def of_numbers() -> tuple[ldp.Release[Model], Any, Any]:
    """The same of numbers."""
    features, _ = blobs(600)
    labels = np.clip(features[:, 0] * 10 + 50, 0, 100)
    held = ldp.Curator(labels, domain=ldp.Interval(0, 100), budget=ldp.Budget(3, 1e-6))
    release = ldp.fit_linear(features, held, epsilon=3, delta=1e-6, evaluation=0.2, rng=SIMULATED(0))
    return release, features, labels


@pytest.mark.parametrize("made", [of_classes, lambda: of_classes(6), of_numbers], ids=["two", "six", "numbers"])
def test_it_goes_through_skops_and_pickle_and_back(made: Any) -> None:
    release, features, _ = made()
    for whole in (release.value, release):
        written = io.dumps(whole)
        types = io.get_untrusted_types(data=written)
        read = io.loads(written, trusted=types)
        for found in (read, pickle.loads(pickle.dumps(whole))):
            model = found.value if whole is release else found
            assert (model.predict(features) == release.value.predict(features)).all()
            assert str(model.evaluation) == str(release.value.evaluation)
            if whole is release:
                assert found.certificate == release.certificate


def test_it_has_the_attributes_of_an_estimator() -> None:
    release, features, labels = of_classes(3)
    model = release.value
    assert model.classes_.tolist() == [0, 1, 2] and isinstance(model.classes_, np.ndarray)
    assert model.score(features, ldp.Public(labels, why="made up")) == (model.predict(features) == labels).mean()
    held = holding(labels, 3, 20.0)
    other = held.release(ldp.RandomizedResponse(domain=held.domain, epsilon=20), rng=SIMULATED(0))
    assert model.score(features, other) == pytest.approx((model.predict(features) == labels).mean(), abs=1e-6)


def test_a_score_on_labels_that_nobody_said_are_public_is_refused() -> None:
    for made in (of_classes, of_numbers):
        release, features, labels = made()
        with pytest.raises(
            ldp.privacy.InputError, match=r'labels must be Public\(array, why="…"\).*`evaluation_` of an'
        ):
            release.value.score(features, labels)


def test_a_score_takes_a_release_on_its_own_domain() -> None:
    release, features, _ = of_classes()
    numbers = np.linspace(0, 100, len(features))
    curator = ldp.Curator(numbers, domain=ldp.Interval(0, 100), budget=ldp.Budget(1))
    other = curator.release(ldp.DiscreteLaplace(domain=ldp.Interval(0, 100), epsilon=1), rng=SIMULATED(1))
    with pytest.raises(ldp.privacy.InputError, match="on the domain of the model"):
        release.value.score(features, other)


def test_numbers_have_no_classes() -> None:
    with pytest.raises(ldp.privacy.InputError, match="has no classes"):
        _ = of_numbers()[0].value.classes_
