"""What every online kernel keeps, whichever it is: one contract for all of them."""

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency

import labeldp.online as online
from labeldp.online import Kernel, check_levels
from labeldp.privacy import PrivacyLoss, as_randomness

ROUNDS = 8
KERNELS: dict[str, Callable[[], Kernel[Any]]] = {
    "BatchedDartboard": lambda: online.BatchedDartboard(3, 2, Fraction(1, 2), Fraction(1, 8)),
    "PlainRedraw": lambda: online.PlainRedraw(3, 3, Fraction(1, 2)),
    "ShrinkingDartboard": lambda: online.ShrinkingDartboard(3, Fraction(1, 2), Fraction(1, 8)),
    "L2P": lambda: online.L2P(online.MultiplicativeWeightsMeasure(3, Fraction(1, 2), 255), 2, Fraction(1, 8)),
    "MultiplicativeWeights": lambda: online.MultiplicativeWeights(3, Fraction(1, 2)),
    "MatrixFactorization": lambda: online.MatrixFactorization(3, 12, Fraction(1, 2), 0.7),
    "TreeNoise": lambda: online.TreeNoise(3, 12, Fraction(1, 2), stddev=0.7),
    "DoublingExponential": lambda: online.DoublingExponential(3, 2),
    "BetterOfTwo": lambda: online.BetterOfTwo(
        online.DoublingExponential(3, 2),
        online.PlainRedraw(3, 3, Fraction(1, 2)),  # takes as many words whatever the losses are
        online.TreeNoise(2, 12, Fraction(1, 2), stddev=0.7),
    ),
}


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Kernel[Any]:
    return KERNELS[request.param]()


def levels(rounds: int, seed: int = 5) -> Any:
    """Losses of three experts, the middle one the best, as checked levels."""
    losses = np.random.default_rng(seed).integers(0, 256, size=(rounds, 3), dtype=np.uint8)
    losses[:, 1] //= 4
    return check_levels(losses, 8, experts=3)


def rng(seed: int) -> Any:
    return as_randomness(np.random.default_rng(seed))


def leaves(value: Any) -> Iterator[Any]:
    """The numbers and arrays of a state."""
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield from leaves(getattr(value, each.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def image(state: Any) -> list[bytes]:
    """All of a state, as bytes."""
    return [np.asarray(leaf).tobytes() for leaf in leaves(state) if leaf is not None]


def test_no_kernel_is_missing_here() -> None:
    kinds = {
        name for name in online.__all__ if isinstance(each := getattr(online, name), type) and issubclass(each, Kernel)
    }
    assert kinds - {"Kernel"} <= set(KERNELS)


def test_a_kernel_is_a_frozen_description_and_its_state_is_immutable(kernel: Kernel[Any]) -> None:
    assert dataclasses.is_dataclass(kernel)
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernel.experts = 4
    state = kernel.init(rng=rng(0))
    before = image(state)
    after, _ = kernel.update(state, levels(ROUNDS), rng=rng(1))
    assert image(state) == before != image(after)


def test_the_repr_of_a_state_shows_sizes_only(kernel: Kernel[Any]) -> None:
    shown = {
        repr(kernel.update(kernel.init(rng=rng(seed)), levels(ROUNDS, seed), rng=rng(seed))[0]) for seed in range(6)
    }
    assert len(shown) == 1


def test_an_action_depends_on_losses_of_earlier_rounds_alone(kernel: Kernel[Any]) -> None:
    """An action depends on losses of earlier rounds alone."""
    one, other = levels(ROUNDS), levels(ROUNDS)
    for changed in range(ROUNDS):
        mixed = np.concatenate([np.asarray(one)[:changed], 255 - np.asarray(other)[changed:]])
        for seed in range(20):
            state = kernel.init(rng=rng(seed))
            _, played = kernel.update(state, one, rng=rng(seed))
            _, again = kernel.update(state, check_levels(mixed, 8, experts=3), rng=rng(seed))
            assert played[0] == kernel.predict(state)
            assert (played[: changed + 1] == again[: changed + 1]).all()


def counts(kernel: Kernel[Any], splits: tuple[int, ...], runs: int, seed: int) -> np.ndarray:
    """How often each pair of the fifth and the last action, and of the coming one, was played."""
    source, losses = rng(seed), levels(sum(splits))
    table = np.zeros((3, 3, 3), dtype=np.int64)
    for _ in range(runs):
        state, played = kernel.init(rng=source), []
        for start, length in zip(np.cumsum((0, *splits)), splits, strict=False):
            state, actions = kernel.update(state, losses[start : start + length], rng=source)
            played.extend(actions)
        table[played[4], played[-1], kernel.predict(state)] += 1
    return table.ravel()


def p_value(one: np.ndarray, other: np.ndarray) -> float:
    """Of the hypothesis that two tables of counts have one law."""
    table = np.stack([one, other])
    table = table[:, table.sum(axis=0) > 0]
    return float(chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0


def test_the_law_of_an_action_does_not_depend_on_how_rounds_are_divided(kernel: Kernel[Any]) -> None:
    """Its law does not depend on how the rounds are divided among calls of `update`."""
    whole = counts(kernel, (ROUNDS,), 600, 1)
    assert p_value(whole, counts(kernel, (1,) * ROUNDS, 600, 2)) > 1e-12
    assert p_value(whole, counts(kernel, (3, 0, 5), 600, 3)) > 1e-12
    shifted = counts(kernel, (ROUNDS,), 600, 4).reshape(3, 3, 3).transpose(1, 2, 0).ravel()
    assert p_value(whole, np.roll(shifted, 1)) < 1e-12


def test_more_rounds_never_cost_less(kernel: Kernel[Any]) -> None:
    losses = [kernel.privacy_loss(rounds) for rounds in (0, 1, 4, ROUNDS)]
    assert all(isinstance(loss, PrivacyLoss) for loss in losses)
    epsilons = [loss.epsilon(1e-6) for loss in losses]
    assert epsilons == sorted(epsilons) and epsilons[-1] > 0


def test_what_a_kernel_says_of_itself_is_public_and_in_words(kernel: Kernel[Any]) -> None:
    assert "expert" in kernel.published
    assert all(isinstance(sentence, str) for sentence in kernel.assumptions)
    assert kernel.experts == 3 and kernel.levels == 255
