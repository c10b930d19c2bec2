"""What runs on an accelerator alone, compiled networks in bfloat16, runs here on the processor: the same code."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.curator import Curator
from labeldp.learners import fit_multistage
from labeldp.mechanisms import Classes
from labeldp.networks import NetworkClassifier, Recipe, SelfSupervised
from labeldp.networks import training as loop
from labeldp.privacy import Budget
from networks.conftest import Images

compiled: list[Any] = []
"""Networks that were compiled."""


@pytest.fixture(autouse=True)
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the processor for an accelerator; graphs are captured, and run as they are, without a C compiler."""
    capture = partial(torch.compile, backend="eager")
    compiled.clear()
    monkeypatch.setattr(loop, "is_accelerator", lambda device: True)
    monkeypatch.setattr(torch, "compile", lambda network: compiled.append(network) or capture(network))


def kinds(network: torch.nn.Module) -> set[torch.dtype]:
    """The types of what the layers of a network answer, in a batch of made-up images."""
    found: set[torch.dtype] = set()
    for layer in network.modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            layer.register_forward_hook(lambda _, __, answer: found.add(answer.dtype))
    with torch.no_grad(), loop.mixed_precision(torch.device("cpu")):
        network(torch.zeros(2, 1, 12, 12))
    return found


RECIPES = {
    "plain": Recipe(epochs=2, batch=64, peak=0.05),
    "mixup": Recipe(epochs=2, batch=64, peak=0.05, mixup=2.0, augment=("crop", "cutout"), average=0.9),
    "consistency": Recipe(epochs=2, batch=64, peak=0.05, augment=("crop", "flip"), consistency=1.0),
}


@pytest.mark.parametrize("name", RECIPES)
def test_two_stages_are_learned_by_compiled_networks_in_bfloat16(training: Images, test: Images, name: str) -> None:
    images, labels = training
    curator = Curator(labels, domain=Classes(4), budget=Budget(8))
    release = fit_multistage(
        images,
        curator,
        classifier=NetworkClassifier(recipe=RECIPES[name]),
        epsilon=8,
        stages=2,
        evaluation=0.0,
        response="randomized-response",
        rng=np.random.default_rng(0),
    )
    assert len(compiled) >= 2, "dry run and stages"
    probabilities = release.value.predict_proba(test[0])
    assert np.isfinite(probabilities).all() and probabilities.sum(axis=1) == pytest.approx(1)
    assert kinds(compiled[-1]) == {torch.bfloat16}


@pytest.mark.parametrize("network", ["resnet18", "inception"])
def test_the_networks_of_the_paper_can_be_captured(network: str) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (16, 32, 32, 3)).astype(np.uint8)
    fitted = NetworkClassifier(network, recipe=Recipe(epochs=1, batch=8)).fit(images, np.arange(16) % 4)
    assert compiled and np.isfinite(fitted.predict_proba(images)).all()


def test_tables_and_ids_can_be_captured() -> None:
    rng = np.random.default_rng(0)
    recipe = Recipe(epochs=1, batch=8, augment=())
    table = NetworkClassifier("mlp", recipe=recipe).fit(rng.normal(size=(16, 3)), np.arange(16) % 2)
    pairs = np.column_stack([np.arange(16), np.arange(16) % 3])
    ids = NetworkClassifier("collaborative", recipe=recipe, counts=(16, 3)).fit(pairs, np.arange(16) % 5)
    assert len(compiled) == 2 and np.isfinite(table.predict_proba(np.zeros((1, 3)))).all()
    assert ids.predict_proba(pairs).shape == (16, 5)


@pytest.mark.parametrize("method", ["contrast", "byol"])
def test_embeddings_are_learned_in_bfloat16(training: Images, method: str) -> None:
    recipe = Recipe(epochs=1, batch=64, augment=("zoom", "flip", "light"))
    learned = SelfSupervised(method=method, recipe=recipe).fit(training[0][:128])
    assert np.isfinite(learned.transform(training[0][:8])).all()


def test_the_processor_is_no_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert loop.is_accelerator(torch.device("cuda")) and not loop.is_accelerator(torch.device("cpu"))
