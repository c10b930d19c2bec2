"""Embeddings from images alone: useful, the same again, and of use to everything that takes public features."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_union
from sklearn.preprocessing import FunctionTransformer

import labeldp as ldp
from labeldp.networks import NetworkClassifier, Recipe, Record, SelfSupervised
from labeldp.networks.selfsupervised import Bootstrap, Contrast
from labeldp.privacy import total_loss

METHODS = ("contrast", "byol")
QUICK = Recipe(epochs=4, batch=64, peak=0.1, warmup=0.1, augment=("crop", "light"))
SHORT = Recipe(epochs=2, batch=64, peak=0.1, warmup=0.1, augment=("crop", "light"))
Images = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module", params=METHODS)
def fitted(request: pytest.FixtureRequest, training: Images) -> SelfSupervised:
    """Of each method, one that is trained."""
    return SelfSupervised(method=request.param, recipe=QUICK).fit(training[0])


def curator(labels: np.ndarray, epsilon: float, delta: float = 0.0) -> ldp.Curator:
    return ldp.Curator(labels, domain=ldp.Classes(4), budget=ldp.Budget(epsilon, delta))


def likeness(embedding: np.ndarray, labels: np.ndarray) -> float:
    """The share of images whose nearest other image has the same label."""
    scaled = (embedding - embedding.mean(axis=0)) / (embedding.std(axis=0) + 1e-6)
    distances = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    return float(np.mean(labels[distances.argmin(axis=1)] == labels))


def test_images_of_one_kind_are_embedded_near_each_other(fitted: SelfSupervised, test: Images) -> None:
    images, labels = test
    embedding = fitted.transform(images)
    assert embedding.shape == (200, fitted.network_.width)
    assert likeness(embedding, labels) > 0.9
    assert fitted.records_[-1].loss < fitted.records_[0].loss


@pytest.mark.guarantee("labeldp.networks:SelfSupervised", "no_labels")
def test_labels_are_not_looked_at(fitted: SelfSupervised, training: Images, test: Images) -> None:
    images, labels = training
    again = [clone(fitted).set_params(recipe=SHORT).fit(images, y).transform(test[0]) for y in (None, labels, "no")]
    assert np.array_equal(again[0], again[1]) and np.array_equal(again[0], again[2])


def test_it_is_a_representation_of_linear_models(fitted: SelfSupervised, training: Images, test: Images) -> None:
    images, labels = training
    flat = FunctionTransformer(lambda images: np.asarray(images).reshape(len(images), -1) / 255.0)
    embedded = FunctionTransformer(fitted.transform)
    for representation in (embedded, make_union(flat, embedded)):
        held = curator(labels, 8.0, 1e-6)
        release = ldp.fit_linear(
            images, held, epsilon=8.0, delta=1e-6, rng=np.random.default_rng(0), representation=representation
        )
        assert np.mean(release.value.predict(test[0]) == test[1]) > 0.7
        assert total_loss(held.ledger.charges).epsilon(1e-6) <= 8.0


def test_it_is_where_a_network_starts(fitted: SelfSupervised, training: Images, test: Images) -> None:
    images, labels = training
    still = Recipe(epochs=1, batch=600, peak=1e-9, augment=())
    tuned = NetworkClassifier(recipe=still, init=ldp.Public(fitted, why="images alone")).fit(images, labels)
    own, started = (list(each.network_.encoder.parameters()) for each in (fitted, tuned))
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(own, started, strict=True))


def test_clusters_of_the_embedding_are_a_prior_of_a_network_in_stages(training: Images, test: Images) -> None:
    images, labels = training
    embedding = SelfSupervised(recipe=QUICK).fit_transform(images)
    held = curator(labels, 4.5)
    rng = np.random.default_rng(0)
    prior = ldp.learners.cluster_prior(embedding, held, clusters=8, clusterings=2, epsilon=0.5, rng=rng)
    assert np.mean(prior.value.argmax(axis=1) == labels) > 0.9
    network = NetworkClassifier(recipe=Recipe(epochs=5, batch=32, peak=0.05, augment=()), loss="posterior")
    release = ldp.fit_multistage(images, held, classifier=network, epsilon=4.0, stages=2, prior=prior, rng=rng)
    assert np.mean(release.value.predict(test[0]) == test[1]) > 0.9
    assert release.certificate.epsilon() == held.ledger.spent.epsilon() == 4.5


def test_an_interrupted_training_ends_where_it_would_have(training: Images, test: Images, tmp_path: Path) -> None:
    class Interrupted(Exception):
        """The power went off."""

    def stop(step: str, record: Record, epochs: int) -> None:
        raise Interrupted

    for method in METHODS:
        with pytest.raises(Interrupted):
            SelfSupervised(method=method, recipe=SHORT, checkpoints=tmp_path, watch=stop).fit(training[0])
        seen: list[int] = []
        resumed = SelfSupervised(
            method=method,
            recipe=SHORT,
            checkpoints=tmp_path,
            watch=lambda _, record, n, seen=seen: seen.append(record.epoch),
        )
        whole = SelfSupervised(method=method, recipe=SHORT).fit(training[0])
        assert np.array_equal(resumed.fit(training[0]).transform(test[0]), whole.transform(test[0]))
        assert np.array_equal(resumed.fit(training[0]).transform(test[0]), whole.transform(test[0]))
        assert seen == [2]
    with pytest.raises(ldp.privacy.InputError, match="is a checkpoint of another run"):
        SelfSupervised(recipe=SHORT, checkpoints=tmp_path).fit(training[0][1:])


def test_the_contrastive_loss_by_hand() -> None:
    """Two images: each view has one partner and two others."""
    module = Contrast(_Given())
    module.projector = torch.nn.Identity()
    first, second = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.6, 0.8], [0.0, 2.0]])
    alike = {"ab": 0.6, "cd": 1.0, "ac": 0.0, "ad": 0.0, "bc": 0.8, "bd": 0.8}
    weights = {pair: np.exp(value / 0.2) for pair, value in alike.items()}
    losses = [
        -np.log(weights["".join(sorted(own + partner))] / sum(w for pair, w in weights.items() if own in pair))
        for own, partner in ("ab", "ba", "cd", "dc")
    ]
    assert float(module((first, second))) == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_copy_follows_slowly_and_is_not_trained() -> None:
    torch.manual_seed(0)
    module = Bootstrap(_Given())
    module.network.encoder = torch.nn.Linear(2, 2)
    module = Bootstrap(module.network)
    loss = module((torch.rand(8, 2), torch.rand(8, 2)))
    loss.backward()
    assert 0 <= float(loss.detach()) <= 4
    assert all(weight.grad is None for weight in module.target.parameters())
    led, own = module.network.encoder.weight, module.target[0].weight
    start = own.clone()
    with torch.no_grad():
        led += 1.0
    module.follow(1.0)
    assert torch.allclose(own, start)
    module.follow(0.0)
    assert torch.allclose(own, start + 0.05, atol=1e-6)


class _Given(torch.nn.Module):
    """An encoder that leaves inputs as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.width = torch.nn.Identity(), 2


@pytest.mark.parametrize(
    ("features", "arguments", "message"),
    [
        (np.zeros((9, 5)), {}, "features must be two images or more"),
        (np.zeros((1, 12, 12), np.uint8), {}, "features must be two images or more"),
        (np.zeros((9, 12, 12)), {}, "features must be images of bytes"),
        (np.zeros((9, 12, 12), np.uint8), {"method": "dino"}, "method must be one of contrast, byol"),
        (np.zeros((9, 12, 12), np.uint8), {"network": "vit"}, "network must be one of"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(features: np.ndarray, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=message):
        SelfSupervised(**arguments).fit(features)
