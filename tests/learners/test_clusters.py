import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import labeldp as ldp
from labeldp.learners import cluster_prior
from labeldp.learners.clusters import _joined, default_clusters, default_epsilon, feature_clusters
from labeldp.privacy import BudgetExceeded, InputError, Trust
from learners.data import blobs, curator

SIMULATED = np.random.default_rng


def test_the_prior_knows_the_class_of_a_clear_cluster() -> None:
    features, labels = blobs(3000, 3, distance=8.0)
    holder = curator(labels, 3, 1.0)
    prior = cluster_prior(features, holder, clusters=3, epsilon=0.5, rng=SIMULATED(0))
    np.testing.assert_allclose(prior.value.sum(axis=1), 1)
    assert prior.value[np.arange(3000), labels].mean() > 0.95
    assert holder.ledger.spent.epsilon() == prior.certificate.loss.epsilon() == 0.5


def test_records_of_one_cluster_have_one_prior() -> None:
    features, labels = blobs(500)
    prior = cluster_prior(features, curator(labels), clusters=7, rng=SIMULATED(0)).value
    clusters = feature_clusters(features, 7, 0)
    for number in range(7):
        assert len(np.unique(prior[clusters == number], axis=0)) <= 1


def test_counts_without_mass_become_a_uniform_prior() -> None:
    features, labels = blobs(40)
    prior = cluster_prior(features, curator(labels), clusters=40, epsilon=0.01, rng=SIMULATED(1)).value
    assert np.any(np.all(prior == 0.5, axis=1))


def test_clusters_depend_on_the_features_alone() -> None:
    """Clusters depend on the features alone."""
    features, labels = blobs(300)
    holders = [curator(labels), curator(1 - labels)]
    mechanisms = [
        cluster_prior(features, holder, rng=SIMULATED(0)).certificate.entries[0].mechanism for holder in holders
    ]
    assert mechanisms[0] == mechanisms[1]


@pytest.mark.parametrize(("records", "classes"), [(50, 2), (1437, 10), (32561, 2), (10**6, 100)])
def test_defaults_follow_from_public_sizes(records: int, classes: int) -> None:
    clusters = default_clusters(records, classes)
    assert 1 <= clusters <= 100
    assert records / clusters >= 10
    assert 0.01 <= default_epsilon(records, clusters) <= 0.2


def test_gaps_and_wide_tables_are_taken() -> None:
    rng = SIMULATED(0)
    features = rng.normal(size=(200, 40))
    features[::9, 3] = np.nan
    assert feature_clusters(features, 5, 0).shape == (200,)


def test_bad_input_is_refused_and_nothing_is_charged() -> None:
    features, labels = blobs(30)
    holder = curator(labels)
    for wrong in (
        {"clusters": 0},
        {"clusters": 31},
        {"clusterings": 0},
        {"clusterings": 1.5},
        {"clusters": 2.5},
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            cluster_prior(features, holder, rng=SIMULATED(0), **wrong)
    with pytest.raises(InputError, match="one row for each record"):
        cluster_prior(features[1:], holder, rng=SIMULATED(0))
    with pytest.raises(InputError, match="numbers"):
        cluster_prior(np.array([["a"]] * 30), holder, rng=SIMULATED(0))
    numbers = ldp.Curator(np.zeros(30), domain=ldp.Interval(0, 1, 3), budget=ldp.Budget(epsilon=1))
    with pytest.raises(InputError, match="Classes"):
        cluster_prior(features, numbers, rng=SIMULATED(0))
    assert not holder.ledger.charges and not numbers.ledger.charges


def test_a_model_with_a_prior_of_counts_is_certified_as_central() -> None:
    """Labels are randomized one by one, but somebody saw them to count clusters: the weaker trust is named."""
    features, labels = blobs(200)
    holder = curator(labels, 2, 2.0)
    prior = cluster_prior(features, holder, epsilon=0.5, rng=SIMULATED(0))
    model = ldp.fit_multistage(
        features, holder, classifier=LogisticRegression(), epsilon=1.5, stages=1, prior=prior, rng=SIMULATED(0)
    )
    assert model.certificate.trust is Trust.CENTRAL
    assert "a trusted curator sees all labels" in model.certificate.at()


def test_several_clusterings_share_the_epsilon() -> None:
    """epsilon-DP for each label: three parts of 0.2, of which none is rounded up."""
    features, labels = blobs(600, 3, distance=8.0)
    holder = curator(labels, 3, 0.2)
    prior = cluster_prior(features, holder, clusters=6, clusterings=3, epsilon=0.2, rng=SIMULATED(0))
    assert 0.2 - 1e-12 < prior.certificate.loss.epsilon() <= 0.2
    assert len(prior.certificate.entries) == len(holder.ledger.charges) == 3
    np.testing.assert_allclose(prior.value.sum(axis=1), 1)
    assert np.all(prior.value > 0)


def test_a_budget_for_some_of_the_clusterings_is_not_touched() -> None:
    features, labels = blobs(200)
    holder = curator(labels, 2, 0.15)
    with pytest.raises(BudgetExceeded, match=r"would bring it to epsilon = 0\.2 "):
        cluster_prior(features, holder, epsilon=0.2, clusterings=2, rng=SIMULATED(0))
    assert holder.ledger.charges == ()


def test_opinions_are_joined_by_their_geometric_mean() -> None:
    first, second = np.array([[0.5, 0.5, 0.0]]), np.array([[0.32, 0.02, 0.66]])
    found = _joined([first, second])[0]
    roots = np.sqrt([0.5 * 0.32, 0.5 * 0.02, 0.001 * 0.66])
    np.testing.assert_allclose(found, roots / roots.sum())
    assert np.array_equal(_joined([first]), first)


def test_each_clustering_has_a_seed_of_its_own() -> None:
    features, labels = blobs(400, 2)
    options = {"clusters": 9, "epsilon": 0.5}
    several = cluster_prior(features, curator(labels), clusterings=2, seed=3, rng=SIMULATED(0), **options)
    one = cluster_prior(features, curator(labels), seed=4, rng=SIMULATED(0), **options)
    first, second = (entry.mechanism for entry in several.certificate.entries)
    assert first != second
    both = np.stack([feature_clusters(features, 9, seed) for seed in (3, 4)], axis=1)
    assert len(np.unique(both, axis=0)) > 9 >= len(np.unique(one.value, axis=0))
    for row in np.unique(both, axis=0):
        assert len(np.unique(several.value[(both == row).all(axis=1)], axis=0)) == 1


def test_the_model_of_one_noisy_sum_is_a_prior_and_costs_what_it_cost() -> None:
    features, labels = blobs(2000, 3, distance=6.0)
    holder = ldp.Curator(labels, domain=ldp.Classes(3), budget=ldp.Budget(2, 1e-6))
    head = ldp.fit_linear(features, holder, epsilon=0.5, delta=1e-6, rng=SIMULATED(0))
    prior = head.map(lambda model: model.predict_proba(features))
    mechanism = ldp.RandomizedResponseWithPrior(domain=holder.domain, epsilon=1.5, prior=prior)
    release = holder.release(mechanism, rng=SIMULATED(1))
    assert release.mechanism.sizes.mean() < 3
    assert np.mean(release.value == labels) > 0.9
    for certified in (release.certificate, holder.ledger):
        spent = certified.loss if certified is release.certificate else certified.spent
        assert spent.epsilon(1e-6) <= 2.0 and spent.epsilon(1e-6) > 1.9
