"""A network learns from released labels, in stages, and goes on where it was interrupted."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import labeldp as ldp
from labeldp.learners import Evidence
from labeldp.networks import NetworkClassifier, Recipe, Record, State
from labeldp.networks.inputs import Inputs
from labeldp.networks.training import run_epochs

QUICK = Recipe(epochs=4, batch=32, peak=0.05, augment=())
Images = tuple[np.ndarray, np.ndarray]


def accuracy(model: ldp.learners.Model, test: Images) -> float:
    return float(np.mean(model.predict(test[0]) == test[1]))


def curator(labels: np.ndarray, epsilon: float = 3.0) -> ldp.Curator:
    return ldp.Curator(labels, domain=ldp.Classes(4), budget=ldp.Budget(epsilon))


def learned(
    training: Images, stages: int = 1, epsilon: float = 3.0, **arguments: object
) -> ldp.Release[ldp.learners.Model]:
    images, labels = training
    network = NetworkClassifier(recipe=QUICK, **arguments)
    return ldp.fit_multistage(
        images,
        curator(labels, epsilon),
        classifier=network,
        epsilon=epsilon,
        stages=stages,
        temperature="calibrated",
        evaluation=0.1,
        rng=np.random.default_rng(0),
    )


@pytest.mark.parametrize("loss", ["forward", "cross-entropy", "posterior"])
@pytest.mark.parametrize("stages", [1, 2])
def test_a_network_learns_from_released_labels(training: Images, test: Images, loss: str, stages: int) -> None:
    release = learned(training, stages, loss=loss)
    assert accuracy(release.value, test) > 0.85
    assert release.certificate.epsilon() == 3.0
    assert release.value.evaluation.accuracy().high > 0.85


def test_the_debiased_loss_learns_in_one_stage(training: Images, test: Images) -> None:
    assert accuracy(learned(training, loss="debiased").value, test) > 0.85


def test_a_sure_prior_is_learned_from_by_default(training: Images, test: Images) -> None:
    images, labels = training
    sure = ldp.Public(np.eye(4)[labels], why="a test")
    models = [
        ldp.fit_multistage(
            images,
            curator(labels, 1.0),
            classifier=NetworkClassifier(recipe=QUICK, loss=loss),
            epsilon=1.0,
            stages=1,
            evaluation=0.0,
            prior=sure,
            rng=np.random.default_rng(0),
        ).value
        for loss in (None, "forward")
    ]
    assert accuracy(models[0], test) > 0.85
    assert accuracy(models[1], test) < 0.6  # each record has one candidate: its release says nothing by itself


def test_mixup_and_consistency_train_too(training: Images, test: Images) -> None:
    recipe = Recipe(epochs=5, batch=32, peak=0.05, augment=(), mixup=0.4, consistency=1.0)
    images, labels = training
    network = NetworkClassifier(recipe=recipe).fit(images, labels)
    assert np.mean(network.predict(test[0]) == test[1]) > 0.85
    assert network.records_[-1].confident > 0


def test_few_records_are_passed_over_more_often(training: Images) -> None:
    recipe = Recipe(epochs=2, least_steps=12, batch=200, augment=())
    assert recipe.passes(600) == 4 and recipe.passes(601) == 3 and recipe.passes(10_000) == 2
    seen: list[tuple[int, int]] = []
    network = NetworkClassifier(recipe=recipe, watch=lambda step, record, epochs: seen.append((record.epoch, epochs)))
    network.fit(*training)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_no_step_of_an_epoch_has_a_few_records_left_over() -> None:
    recipe, taken = Recipe(epochs=2, batch=64, augment=()), list[torch.Tensor]()

    def step(records: torch.Tensor, done: float) -> torch.Tensor:
        taken.append(records)
        return torch.zeros(2)

    assert len(list(run_epochs(State.fresh(torch.nn.Linear(1, 1), recipe), recipe, 130, step))) == 2
    assert [len(records) for records in taken] == [44, 43, 43] * 2
    for epoch in (taken[:3], taken[3:]):
        assert torch.equal(torch.cat(epoch).sort().values, torch.arange(130))


def test_the_average_of_the_weights_is_that_of_all_steps(training: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    weights: list[torch.Tensor] = []
    descend = State.descend

    def watched(self: State, loss: torch.Tensor) -> None:
        descend(self, loss)
        weights.append(self.network.head.weight.detach().clone())

    monkeypatch.setattr(State, "descend", watched)
    recipe = Recipe(epochs=2, batch=200, peak=0.05, augment=(), average=0.3)
    network = NetworkClassifier(recipe=recipe).fit(*training)
    first = NetworkClassifier(recipe=recipe)._first_network(Inputs.of(training[0]), 4, None, recipe)
    mean = first.head.weight.detach()
    for taken, newest in enumerate(weights[: recipe.passes(600) * 3], start=1):
        kept = min(0.3, (1 + taken) / (10 + taken))
        mean = kept * mean + (1 - kept) * newest
    assert torch.allclose(network.network_.head.weight.detach(), mean, atol=1e-6)
    assert not torch.allclose(mean, weights[-1], atol=1e-6)


def test_predictions_are_averaged_over_views(training: Images, test: Images) -> None:
    network = NetworkClassifier(recipe=QUICK).fit(*training)
    images = test[0][:50]
    plain = network.predict_proba(images)
    mirrored = network.predict_proba(images[:, :, ::-1])
    moved = [network.predict_proba(np.roll(images, (step, step), (1, 2))) for step in (1, -1)]
    for views, parts in ((("flip",), [plain, mirrored]), (("shift",), [plain, *moved])):
        logs = np.mean([np.log(each) for each in parts], axis=0)
        expected = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
        assert np.allclose(network.set_params(views=views).predict_proba(images), expected, atol=2e-2)
    kept = pickle.loads(pickle.dumps(network))
    assert kept.views == ("shift",) and np.array_equal(kept.predict_proba(images), network.predict_proba(images))


def test_a_stage_starts_from_the_weights_of_the_last(training: Images) -> None:
    images, labels = training
    first = NetworkClassifier(recipe=QUICK).fit(images, labels)
    release = curator(labels).release(
        ldp.RandomizedResponse(domain=ldp.Classes(4), epsilon=3.0), rng=np.random.default_rng(0)
    )
    evidence = Evidence.of(release)
    still = Recipe(epochs=1, batch=600, peak=1e-9, augment=())
    warm = NetworkClassifier(recipe=still).fit_released(images, evidence, start=first)
    cold = NetworkClassifier(recipe=still).fit_released(images, evidence)
    weights = [each.network_.head.weight.detach() for each in (first, warm, cold)]
    assert torch.allclose(weights[0], weights[1], atol=1e-5)
    assert not torch.allclose(weights[0], weights[2], atol=1e-2)


def test_each_stage_has_its_recipe(training: Images) -> None:
    seen: list[tuple[str, int]] = []
    recipes = [Recipe(epochs=1, batch=64, augment=()), Recipe(epochs=2, batch=64, augment=())]
    network = NetworkClassifier(recipe=recipes, watch=lambda step, record, epochs: seen.append((step, epochs)))
    images, labels = training
    ldp.fit_multistage(images, curator(labels), classifier=network, epsilon=3.0, stages=2, rng=np.random.default_rng(0))
    assert seen == [("stage 1", 1), ("stage 2", 2), ("stage 2", 2)]


def test_fresh_heads_stand_on_public_weights(training: Images, test: Images) -> None:
    images, labels = training
    fitted = NetworkClassifier(recipe=QUICK).fit(images, labels % 2)
    first = ldp.Public(fitted, why="a test")
    tuned = NetworkClassifier(recipe=QUICK, init=first)
    network = tuned._first_network(Inputs.of(images), 4, None, QUICK)
    assert torch.equal(network.encoder[0][0].weight, fitted.network_.encoder[0][0].weight)
    assert np.mean(tuned.fit(images, labels).predict(test[0]) == test[1]) > 0.85
    with pytest.raises(ldp.privacy.InputError, match="init must be a network of the same kind"):
        NetworkClassifier("mlp", recipe=QUICK, init=first).fit(images, labels)


def test_first_weights_are_public_or_released(training: Images) -> None:
    images, labels = training
    bare = NetworkClassifier(recipe=QUICK).fit(images, labels)
    holder = curator(labels)
    with pytest.raises(ldp.privacy.InputError, match="init must be Public"):
        ldp.fit_multistage(
            images,
            holder,
            classifier=NetworkClassifier(recipe=QUICK, init=bare),
            epsilon=1.0,
            stages=1,
            rng=np.random.default_rng(0),
        )
    assert holder.ledger.spent.epsilon() == 0
    public = learned(training, init=ldp.Public(bare, why="other people's photographs"))
    assert any("other people's photographs" in each for each in public.certificate.assumptions)
    before = learned(training, epsilon=1.0).map(lambda model: model.estimator)
    both = learned(training, epsilon=2.0, init=before)
    assert {charge.id for charge in before.certificate.entries} < {charge.id for charge in both.certificate.entries}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recipe": Recipe(augment=("crop",)), "network": "mlp"}, "augment and consistency are for images"),
        ({"recipe": Recipe(augment=(), consistency=1.0), "network": "mlp"}, "augment and consistency are for images"),
        ({"recipe": [QUICK, Recipe(augment=("flip",))], "network": "mlp"}, "augment and consistency are for images"),
        ({"loss": "foward"}, "loss must be one of"),
        ({"loss": "debiased"}, '"debiased" training needs one stage'),
        ({"network": "collaborative"}, "features must be pairs of ids"),
    ],
)
def test_what_could_not_be_trained_is_refused_before_anything_is_charged(
    training: Images, arguments: dict[str, object], message: str
) -> None:
    holder = curator(training[1])
    features = np.random.default_rng(0).normal(size=(600, 5))
    network = NetworkClassifier(**{"network": "mlp", **arguments})
    with pytest.raises((ldp.privacy.InputError, ldp.privacy.NotInvertibleError), match=message):
        ldp.fit_multistage(features, holder, classifier=network, epsilon=1.0, stages=2, rng=np.random.default_rng(0))
    assert holder.ledger.spent.epsilon() == 0


def test_pairs_of_ids_are_counted_before_anything_is_charged() -> None:
    pairs, ratings = np.stack([np.arange(60), np.arange(60) % 7], axis=1), np.arange(60) % 3
    for arguments, message in (
        ({}, "counts must say how many ids"),
        ({"counts": (60, 6)}, "counts must be larger than every id"),
        ({"counts": (60, 7), "recipe": Recipe(augment=(), mixup=1.0)}, "ids cannot be mixed"),
    ):
        holder = ldp.Curator(ratings, domain=ldp.Classes(3), budget=ldp.Budget(1.0))
        network = NetworkClassifier("collaborative", **arguments)
        with pytest.raises(ldp.privacy.InputError, match=message):
            ldp.fit_multistage(pairs, holder, classifier=network, epsilon=1.0, rng=np.random.default_rng(0))
        assert holder.ledger.spent.epsilon() == 0


def test_a_table_is_learned_by_the_default_recipe() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 50, (800, 2))  # two columns of integers are numbers, too
    labels = (table[:, 0] > table[:, 1]).astype(int)
    network = NetworkClassifier("mlp").fit(table, labels)
    assert np.mean(network.predict(table) == labels) > 0.85


def test_the_embedding_is_a_representation_for_linear_models(training: Images, test: Images) -> None:
    images, labels = training
    network = NetworkClassifier(recipe=QUICK).fit(images, labels)
    assert network.transform(test[0]).shape == (200, network.network_.width)


def test_the_same_seed_trains_the_same_network(training: Images, test: Images) -> None:
    images, labels = training
    first, second = (NetworkClassifier(recipe=QUICK).fit(images, labels).predict_proba(test[0]) for _ in range(2))
    assert np.array_equal(first, second)


class Interrupted(Exception):
    """The power went off."""


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_an_interrupted_training_ends_where_it_would_have(
    training: Images, test: Images, tmp_path: Path, average: float
) -> None:
    (images, labels), recipe = training, replace(QUICK, average=average)

    def stop(step: str, record: Record, epochs: int) -> None:
        if record.epoch == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        NetworkClassifier(recipe=recipe, checkpoints=tmp_path, watch=stop).fit(images, labels)
    seen: list[int] = []
    resumed = NetworkClassifier(recipe=recipe, checkpoints=tmp_path, watch=lambda _, r, n: seen.append(r.epoch))
    whole = NetworkClassifier(recipe=recipe).fit(images, labels)
    assert np.array_equal(resumed.fit(images, labels).predict_proba(test[0]), whole.predict_proba(test[0]))
    assert seen == [3, 4]
    assert [record.epoch for record in resumed.records_] == [1, 2, 3, 4]


def test_a_checkpoint_of_another_run_is_refused(training: Images, tmp_path: Path) -> None:
    images, labels = training
    NetworkClassifier(recipe=QUICK, checkpoints=tmp_path).fit(images, labels)
    with pytest.raises(ldp.privacy.InputError, match="is a checkpoint of another run"):
        NetworkClassifier(recipe=QUICK, checkpoints=tmp_path).fit(images, (labels + 1) % 4)
    (tmp_path / "soft-labels.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ldp.privacy.InputError, match="is damaged"):
        NetworkClassifier(recipe=QUICK, checkpoints=tmp_path).fit(images, labels)


def test_a_batch_that_does_not_fit_says_which_would(training: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = training

    def full(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10 bytes.")

    monkeypatch.setattr("labeldp.networks.training._step", full)
    with pytest.raises(
        ldp.privacy.InputError, match="a batch of 32 records does not fit into memory: take batch=16 or less"
    ):
        NetworkClassifier(recipe=QUICK).fit(images, labels)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((600, 12, 12)), "features must be images of bytes"),
        (np.zeros((600, 12, 12, 2), dtype=np.uint8), "neither one channel nor three"),
        (np.full((600, 3), np.nan), "finite numbers"),
        (np.array([["a"]] * 600), "features must be images of bytes"),
        (np.zeros((600, 5)), "features must be images, shape"),
    ],
)
def test_features_that_no_network_takes_are_refused_before_anything_is_charged(
    training: Images, features: np.ndarray, message: str
) -> None:
    held = curator(training[1])
    with pytest.raises(ldp.privacy.InputError, match=message):
        ldp.fit_multistage(
            features, held, classifier=NetworkClassifier(recipe=QUICK), epsilon=1.0, rng=np.random.default_rng(0)
        )
    assert held.ledger.spent.epsilon() == 0


def test_a_network_answers_only_records_like_those_that_it_met(training: Images) -> None:
    images, labels = training
    network = NetworkClassifier(recipe=QUICK).fit(images, labels)
    assert network.predict_proba(images[:0]).shape == (0, 4)
    with pytest.raises(ldp.privacy.InputError, match="features must have the shape of those in training"):
        network.predict(np.zeros((3, 28, 28), dtype=np.uint8))


def test_a_clone_is_unfitted_and_has_the_same_arguments() -> None:
    network = NetworkClassifier("mlp", recipe=QUICK, loss="posterior")
    assert clone(network).get_params() == network.get_params()


def test_ratings_are_learned_from_pairs_of_ids() -> None:
    rng = np.random.default_rng(0)
    pairs = np.stack([rng.integers(0, 20, 3000), rng.integers(0, 30, 3000)], axis=1)
    ratings = (pairs[:, 0] % 2 + pairs[:, 1] % 2).astype(int)
    recipe = Recipe(epochs=12, batch=64, peak=0.3, augment=())
    network = NetworkClassifier("collaborative", recipe=recipe, counts=(20, 31))
    release = ldp.fit_multistage(
        pairs,
        ldp.Curator(ratings, domain=ldp.Classes(3), budget=ldp.Budget(4.0)),
        classifier=network,
        epsilon=4.0,
        stages=2,
        evaluation=0.0,
        rng=np.random.default_rng(1),
    )
    assert np.mean(release.value.predict(pairs) == ratings) > 0.8
    assert len(release.value.predict(np.array([[19, 30]]))) == 1  # nobody rated it, but it was counted
    with pytest.raises(ldp.privacy.InputError, match="shape of those in training"):
        release.value.predict(np.array([[20, 0]]))
    with pytest.raises(ldp.privacy.InputError, match="counts must be larger than every id"):
        NetworkClassifier("collaborative", counts=(20, 20)).fit(pairs, ratings)


class Plain(torch.nn.Module):
    """A module of one's own: no encoder, no head."""

    def __init__(self, size: int, classes: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(size, 32), torch.nn.ReLU(), torch.nn.Linear(32, classes)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)


def plain(size: int, classes: int) -> Plain:
    torch.manual_seed(0)
    return Plain(size, classes)


@pytest.mark.parametrize("stages", [1, 2])
def test_any_module_learns_in_stages(stages: int) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(1500, 4))
    labels = (table[:, 0] > 0).astype(int) + (table[:, 1] > 0)
    module = plain(4, 3)
    before = [each.clone() for each in module.parameters()]
    network = NetworkClassifier(module=module, recipe=Recipe(epochs=8, batch=64, augment=()))
    holder = ldp.Curator(labels, domain=ldp.Classes(3), budget=ldp.Budget(3))
    release = ldp.fit_multistage(table, holder, classifier=network, epsilon=3, stages=stages, rng=rng)
    assert np.mean(release.value.predict(table) == labels) > 0.85
    assert all(torch.equal(*pair) for pair in zip(module.parameters(), before, strict=True)), "a copy is trained"
    assert "first weights do not depend on the private labels (they were given with the module)" in str(
        release.certificate.assumptions
    )
    again = pickle.loads(pickle.dumps(release.value.estimator))
    assert np.allclose(again.predict_proba(table), release.value.estimator.predict_proba(table))


def test_a_module_takes_images_and_says_where_its_weights_come_from(training: Any) -> None:
    images, labels = training
    given = ldp.Public(plain(images[0].size, 4), why="it was trained on other people")
    network = NetworkClassifier(module=given, recipe=Recipe(epochs=2, batch=64, augment=("crop",)))
    release = ldp.fit_multistage(images, curator(labels), classifier=network, epsilon=3.0, rng=np.random.default_rng(0))
    assert "it was trained on other people" in str(release.certificate.assumptions)
    assert release.value.predict(images[:5]).shape == (5,)
    with pytest.raises(ldp.privacy.InputError, match="only networks by name have an embedding"):
        release.value.estimator.transform(images[:5])


def test_a_module_takes_ids_where_counts_are_given() -> None:
    class Pairs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tables = torch.nn.ModuleList([torch.nn.Embedding(count, 3) for count in (40, 7)])

        def forward(self, pairs: torch.Tensor) -> torch.Tensor:
            return self.tables[0](pairs[:, 0]) + self.tables[1](pairs[:, 1])

    pairs = np.stack([np.arange(400) % 40, np.arange(400) % 7], axis=1)
    network = NetworkClassifier(module=Pairs(), counts=(40, 7), recipe=Recipe(epochs=2, augment=()))
    network.fit(pairs, np.arange(400) % 3)
    assert network.predict_proba(pairs).shape == (400, 3)


MODULES: dict[str, tuple[dict[str, Any], str]] = {
    "no module": ({"module": "cnn"}, "module must be a torch.nn.Module"),
    "a class": ({"module": Plain}, "module must be a torch.nn.Module"),
    "another shape": ({"module": plain(7, 3)}, "module cannot take these features: mat1 and mat2"),
    "other classes": ({"module": plain(4, 5)}, r"module must return scores, shape \(2, 3\).*returns shape \(2, 5\)"),
    "init": ({"module": plain(4, 3), "init": ldp.Public(1, why="x")}, "init goes with network"),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_does_not_fit_is_refused_before_anything_is_charged(name: str) -> None:
    arguments, message = MODULES[name]
    holder = ldp.Curator(np.arange(60) % 3, domain=ldp.Classes(3), budget=ldp.Budget(1))
    network = NetworkClassifier(recipe=Recipe(augment=()), **arguments)
    with pytest.raises(ldp.privacy.InputError, match=message):
        ldp.fit_multistage(np.ones((60, 4)), holder, classifier=network, epsilon=1, rng=np.random.default_rng(0))
    assert not holder.ledger.charges
