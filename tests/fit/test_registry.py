"""How each `--model` is learned: who may name it, what its releases cost, and what is left of an interrupted fit."""

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.cli.fit import fit
from labeldp.fit import FitSettings
from labeldp.fit.bundle import TRUSTED
from labeldp.fit.recipe import TrainingContext
from labeldp.fit.registry import METHODS, RECIPES, recipe_of
from labeldp.privacy import Charge, PrivacyLoss, total_loss

LINEAR = FitSettings("bought", ldp.Classes(3), 0.5, 1e-6, "people", trust="central", model="linear")

LOCAL = replace(LINEAR, delta=0.0, trust="local", model="auto")


def test_the_command_line_names_every_model() -> None:
    model, method = (next(each for each in fit.params if each.name == name) for name in ("model", "method"))
    assert list(model.type.choices) == list(RECIPES) and list(method.type.choices) == list(METHODS)  # type: ignore[attr-defined]
    assert all(f"{name} ({choice.help}" in model.help for name, choice in RECIPES.items())  # type: ignore[attr-defined]


def test_every_class_that_a_bundle_may_hold_exists() -> None:
    for name in TRUSTED:
        module, _, own = name.rpartition(".")
        if not module.startswith("labeldp.networks") or find_spec("torch"):
            assert hasattr(import_module(module), own), name


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("trust", ["local", "central", "none"])
def test_a_model_goes_with_its_trust_alone(images: bool, trust: str) -> None:
    data = "images" if images else "tables"
    for model, choice in RECIPES.items():
        if data not in choice.data:
            continue
        settings = replace(LOCAL, model=model, trust=trust)
        if any(source.trust == trust and "classes" in source.targets for source in choice.sources):
            assert recipe_of(settings, images=images).settings is settings
            continue
        if model == "auto" and images:
            assert recipe_of(settings, images=True).settings.model == "linear"
            continue
        if (model, trust, images) == ("auto", "central", False):
            assert recipe_of(settings).settings.model == "cells"
            assert recipe_of(replace(settings, delta=1e-6)).settings.model == "linear"
            continue
        with pytest.raises(ldp.privacy.InputError, match=r"--trust"):
            recipe_of(settings, images=images)


@pytest.mark.parametrize(
    ("changes", "images", "words"),
    [
        ({"model": "cnn"}, False, "--model cnn is not for a table: take --model auto"),
        ({"model": "auto", "prior": "clusters"}, True, "--model must be named for images: linear, cnn"),
        ({"model": "linear", "prior": "clusters"}, True, "--prior clusters goes with --trust central"),
        ({"model": "linear", "delta": 1e-6}, True, "--delta goes with --trust central"),
        (
            {"model": "cnn", "trust": "central"},
            True,
            "goes with --trust local; .* take --model linear, or --method best",
        ),
        ({"model": "cnn", "delta": 1e-6}, True, "--delta goes with --trust central"),
        ({"method": "best", "delta": 1e-6}, True, "--delta goes with --trust central"),
        ({"method": "best", "trust": "central"}, False, "--method best is for images; a table takes --method auto"),
        ({"method": "auto"}, True, "--method auto is for tables; images take --method best"),
        ({"method": "best", "trust": "central", "model": "linear"}, True, "--method best takes --model cnn"),
        ({"method": "best", "trust": "central", "stages": 2}, True, "do not go with --method best"),
        ({"method": "best", "trust": "central", "epochs": 2}, True, "do not go with --method best"),
        ({"model": "logistic", "epochs": 2}, False, "--epochs goes with --model cnn"),
        ({"model": "linear", "trust": "central", "init": "model"}, True, "--init goes with --model cnn"),
    ],
)
def test_models_of_images_and_of_tables_are_told_apart(changes: dict[str, Any], images: bool, words: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=words):
        recipe_of(replace(LOCAL, **changes), images=images)


def test_the_parts_of_a_linear_fit_cost_epsilon_once() -> None:
    recipe = recipe_of(LINEAR)
    assert [source.trust for source in RECIPES["linear"].sources] == ["local", "central"]
    assert [step.name for step in recipe.steps(100)] == ["linear", "evaluation"]
    rest = total_loss(recipe.remaining_charges({}, 100))
    assert rest.within(0.5, 1e-6) and not rest.within(0.4999, 1e-6) and not rest.within(0.5, 0.9e-6)
    assert (
        total_loss(recipe_of(replace(LINEAR, delta=0.0)).remaining_charges({}, 100)).max_loss
        == PrivacyLoss.pure(0.5).max_loss
    )


def test_what_is_left_lies_in_the_split_that_was_charged() -> None:
    recipe = recipe_of(LINEAR)
    linear, evaluation = recipe.steps(100)
    done = Charge("1", (("split of the records", 0),), linear.loss, {})
    (left,) = recipe.remaining_charges({"linear": done}, 100)
    assert left.path == (("split of the records", 1),) and left.loss == evaluation.loss
    assert total_loss([done, left]).within(0.5, 1e-6)
    assert recipe.remaining_charges({"linear": done, "evaluation": left}, 100) == ()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("records", [30, 3000])
def test_what_sums_cost_is_known_before_their_rows_are(epsilon: float, records: int) -> None:
    """The step's loss agrees with the charge of the release in the fourth digit, and both keep the promise."""
    recipe = recipe_of(replace(LINEAR, epsilon=epsilon))
    rows = np.random.default_rng(0).normal(size=(records, 7))
    curator = ldp.Curator(np.arange(records) % 3, domain=LINEAR.domain, budget=ldp.Budget(epsilon, 1e-6))
    release = ldp.fit_linear(rows, curator, epsilon=epsilon, delta=1e-6, rng=np.random.default_rng(1))
    charged, foreseen = release.certificate.entries[0].loss, recipe.steps(records)[0].loss
    assert charged.within(epsilon, 1e-6) and foreseen.within(epsilon, 1e-6)
    assert charged.epsilon(1e-6) == pytest.approx(foreseen.epsilon(1e-6), rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"stages": 2}, "--stages"), ({"prior": "clusters"}, "--prior"), ({"model": "tree"}, "--model must be one of")],
)
def test_options_of_other_models_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=words):
        recipe_of(replace(LINEAR, **changes))
    with pytest.raises(ldp.privacy.InputError, match="--delta goes with --trust central"):
        recipe_of(replace(LOCAL, delta=1e-6))


@pytest.mark.parametrize(("images", "model"), [(False, "auto"), (False, "boosting"), (False, "kernel"), (True, "cnn")])
def test_a_prior_of_counts_takes_somebody_who_counts(images: bool, model: str) -> None:
    settings = replace(LOCAL, model=model, prior="clusters")
    with pytest.raises(
        ldp.privacy.InputError, match="--prior clusters goes with --trust central: the labels of each cluster"
    ):
        recipe_of(settings, images=images)
    recipe = recipe_of(replace(settings, trust="central"), images=images)
    assert recipe.settings.model == model and recipe.steps(1000)[0].name == "cluster prior"
    with pytest.raises(ldp.privacy.InputError, match="--delta does not go with --prior clusters"):
        recipe_of(replace(settings, trust="central", delta=1e-6), images=images)
    without = replace(settings, trust="central", prior="none", model="cnn" if images else "kernel")
    with pytest.raises(ldp.privacy.InputError, match="goes with --trust local"):
        recipe_of(without, images=images)


def test_each_epoch_is_shown_with_the_share_that_is_done() -> None:
    seen: list[tuple[str, float]] = []
    watch = TrainingContext(show=lambda text, share: seen.append((text, share))).watch(2)
    for step, epoch in [("stage 1", 1), ("stage 1", 2), ("stage 2", 1), ("stage 2", 2), ("one more", 1)]:
        watch(step, SimpleNamespace(epoch=epoch, loss=0.5), 2)
    assert [share for _, share in seen] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert seen[2][0] == "stage 2: epoch 1 of 2, loss 0.500"


def test_noise_is_told_in_words() -> None:
    four = replace(LOCAL, domain=ldp.Classes(4))
    told = recipe_of(four).describe_noise(100)
    assert "one of 2 random class groups" in told and "probability 0.622." in told  # e^0.5 / (e^0.5 + 1)
    assert recipe_of(LINEAR).describe_noise(100).startswith("Gaussian noise was added to every sum")
    assert "2.83 times" in recipe_of(replace(LINEAR, delta=0.0)).describe_noise(100)  # sqrt(2) / 0.5


NUMBERS = replace(LOCAL, domain=ldp.Interval(0, 10))


@pytest.mark.parametrize(
    ("changes", "kind", "model"),
    [
        ({}, "ReleasedLabels", "auto"),
        ({"model": "boosting"}, "ReleasedLabels", "boosting"),
        ({"model": "neighbors"}, "ReleasedLabels", "neighbors"),
        ({"trust": "central"}, "NoisyCells", "cells"),
        ({"trust": "central", "delta": 1e-6}, "NoisySums", "linear"),
        ({"trust": "central", "model": "linear"}, "NoisySums", "linear"),
    ],
)
def test_numbers_have_plans_of_their_own(changes: dict[str, Any], kind: str, model: str) -> None:
    recipe = recipe_of(replace(NUMBERS, **changes))
    assert type(recipe).__name__ == kind and recipe.settings.model == model
    losses = [step.loss for step in recipe.steps(100)]
    assert total_loss(recipe.remaining_charges({}, 100)).within(0.5, changes.get("delta", 0)) and len(losses) in (2, 3)


@pytest.mark.parametrize("model", ["cells", "neighbors"])
@pytest.mark.parametrize("classes", [2, 3, 10, 11, 40])
def test_classes_are_answered_alike_whatever_the_model(model: str, classes: int) -> None:
    settings = replace(LOCAL, domain=ldp.Classes(classes), epsilon=1.0)
    recipe, auto = recipe_of(replace(settings, model=model)), recipe_of(settings)
    assert recipe.steps(100)[0].mechanism == auto.steps(100)[0].mechanism
    assert recipe.steps(100)[0].loss.within(1.0, 0)


@pytest.mark.slow
def test_how_far_a_released_number_is_from_the_true_one_is_said() -> None:
    assert "one of 2 values in [-15.41, 25.41]" in recipe_of(NUMBERS).describe_noise(100)  # 10 / (e^0.5 - 1) beyond
    assert "scale 20.00, in the unit of the labels, was added to the sum of each cell" in recipe_of(
        replace(NUMBERS, trust="central")
    ).describe_noise(100)
    many = recipe_of(replace(LOCAL, domain=ldp.Classes(40), model="cells", epsilon=1.0))
    assert "one of 3 random class groups" in many.describe_noise(100)


def test_images_may_have_numbers_for_labels_with_a_linear_model() -> None:
    images = replace(NUMBERS, trust="central", model="linear")
    assert type(recipe_of(images, images=True)).__name__ == "NoisySums"
    with pytest.raises(ldp.privacy.InputError, match="--model cnn does not learn numbers"):
        recipe_of(replace(NUMBERS, model="cnn"), images=True)
