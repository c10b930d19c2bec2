"""What every online kernel keeps, whichever it is: one contract for all of them."""

import dataclasses
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

import labeldp.online as online
from labeldp.online import (
    Kernel,
    quantize,
)
from labeldp.online.experts.kernel import BLOCK_LOSSES, check_levels
from labeldp.privacy import InputError, PrivacyLoss, as_randomness

ROUNDS = 8

KERNELS: dict[str, Callable[[], Kernel[Any]]] = {
    "BatchedDartboard": lambda: online.BatchedDartboard(3, 2, Fraction(1, 2), Fraction(1, 8)),
    "PlainRedraw": lambda: online.BatchedDartboard(3, 3, Fraction(1, 2), 1),
    "ShrinkingDartboard": lambda: online.BatchedDartboard.shrinking(3, Fraction(1, 2), Fraction(1, 8)),
    "L2P": lambda: online.L2P(online.MultiplicativeWeightsMeasure(3, Fraction(1, 2), 255), 2, Fraction(1, 8)),
    "MatrixFactorization": lambda: online.MatrixFactorization(3, 12, Fraction(1, 2), 0.7),
    "TreeNoise": lambda: online.TreeNoise(3, 12, Fraction(1, 2), stddev=0.7),
    "DoublingExponential": lambda: online.DoublingExponential(3, 2),
    "BetterOfTwo": lambda: online.BetterOfTwo(
        online.DoublingExponential(3, 2),
        online.BatchedDartboard(3, 3, Fraction(1, 2), 1),  # takes as many words whatever the losses are
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


@pytest.mark.slow
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
    assert kernel.published == "the action of each round"
    assert all(isinstance(sentence, str) for sentence in kernel.assumptions)
    assert kernel.experts == 3 and kernel.levels == 255


NAN = float("nan")

SECRET = 0.87654321


@pytest.mark.guarantee("labeldp.online:quantize", "nearest")
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.sampled_from([8, 16]))
def test_the_nearest_level(losses: list[float], bits: int) -> None:
    [levels] = quantize(losses, bits).astype(int)
    most = 2**bits - 1
    assert np.all(np.abs(levels / most - losses) <= (0.5 + 1e-10) / most)
    assert quantize(losses, bits).dtype == (np.uint8 if bits == 8 else np.uint16)


def test_every_level_is_itself() -> None:
    for bits in (8, 16):
        levels = np.arange(2**bits)
        assert np.array_equal(quantize(levels / (2**bits - 1), bits)[0], levels)
        assert np.array_equal(quantize((levels / (2**bits - 1)).astype(np.float32), bits)[0], levels)


def test_shapes_and_kinds() -> None:
    assert quantize([1, 0.5, 0]).tolist() == [[255, 128, 0]]
    assert quantize([[True, False]], experts=2).tolist() == [[255, 0]]
    for kind in (np.uint8, np.int16, np.int64, np.uint64):
        assert quantize(np.array([[0, 1], [1, 1]], dtype=kind)).tolist() == [[0, 255], [255, 255]]
        assert quantize(sp.csr_array(np.array([[0, 1]], dtype=kind)), 16).toarray().tolist() == [[0, 65_535]]
    assert quantize(np.ones((3, 2), dtype=np.float16)).tolist() == [[255, 255]] * 3
    assert check_levels(np.array([3, 255], dtype=">i8")).tolist() == [[3, 255]]


def test_many_rounds_are_rounded_in_parts() -> None:
    losses = np.random.default_rng(0).random((3 * BLOCK_LOSSES // 100, 100))
    assert np.array_equal(quantize(losses), np.rint(losses * 255))
    late = losses.copy()
    late[-1, -1] = NAN
    with pytest.raises(InputError):
        quantize(late)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_array, sp.lil_array])
def test_sparse_losses(kind: type) -> None:
    dense = np.where(np.random.default_rng(1).random((9, 7)) < 0.3, 0.7, 0.0)
    levels = quantize(kind(dense), experts=7)
    assert levels.format == "csr" and levels.has_canonical_format and levels.dtype == np.uint8
    assert np.array_equal(levels.toarray(), quantize(dense))
    again = check_levels(kind(quantize(dense)), experts=7)
    assert again.dtype == np.uint8 and np.array_equal(again.toarray(), quantize(dense))


def test_repeated_sparse_entries_are_summed_before_they_are_checked() -> None:
    places = ([0, 0], [1, 1])
    assert quantize(sp.coo_array(([0.25, 0.5], places), shape=(1, 2))).toarray().tolist() == [[0, 191]]
    for values, check in (([0.75, 0.5], quantize), (np.array([200, 57], dtype=np.uint8), check_levels)):
        with pytest.raises(InputError, match=r"must be (numbers in .0, 1.|integers from 0 to 255)"):
            check(sp.coo_array((values, places), shape=(1, 2)))


def test_levels_of_the_right_type_are_not_copied() -> None:
    levels = np.random.default_rng(2).integers(0, 256, (5, 4), dtype=np.uint8)
    assert check_levels(levels) is levels
    assert np.array_equal(check_levels(levels.astype(np.int64), 16), levels)
    assert check_levels(np.array([65_535]), 16).dtype == np.uint16


VALUES = "losses must be numbers in [0, 1], none of them missing"

INTEGERS = "losses must be numbers in [0, 1]; these are integers: levels that are rounded already go to update_levels"

SHAPE = "it must be (2,) for one round or (rounds, 2), one round or more; (rounds, 2) where they are sparse"

OUTSIDE = "losses must not be a sparse array with entries outside of its columns"

BAD = {
    "above one": ([0.1, 1.0000001], VALUES),
    "below zero": ([-1e-300, 0.5], VALUES),
    "missing": ([SECRET, NAN], VALUES),
    "infinite": ([0.5, np.inf], VALUES),
    "integers": ([0, 2], INTEGERS),
    "integers below zero": (np.array([[0, 1], [1, -1]]), INTEGERS),
    "texts": (["a", "b"], "losses must be numbers in [0, 1]; these are text"),
    "objects": ([None, 0.5], "losses must be numbers in [0, 1]; these are objects of another kind"),
    "ragged": ([[0.5], [0.5, 0.5]], "losses must be an array of numbers, as many in every round"),
    "complex": ([0.5j, 0.5], "losses must be numbers in [0, 1]; these are complex numbers"),
    "a number": (0.5, f"losses have shape (): {SHAPE}"),
    "three axes": (np.zeros((1, 1, 2)), f"losses have shape (1, 1, 2): {SHAPE}"),
    "none": (np.zeros((0, 2)), f"losses have shape (0, 2): {SHAPE}"),
    "empty": ([], "losses have 0 columns, but there are 2 experts"),
    "narrow": ([SECRET], "losses have 1 column, but there are 2 experts"),
    "wide": ([[0.5, 0.5, SECRET]], "losses have 3 columns, but there are 2 experts"),
    "masked": (
        np.ma.masked_array([0.5, SECRET], [False, True]),
        "losses must not be a masked array: none of them may be missing",
    ),
    "sparse missing": (sp.csr_array([[0.0, NAN]]), VALUES),
    "sparse above one": (sp.csr_array([[0.0, 1.5]]), VALUES),
    "sparse integers": (sp.csr_array([[0, 3]]), INTEGERS),
    "sparse wide": (sp.csr_array([[0.5, 0.5, 0.5]]), "losses have 3 columns, but there are 2 experts"),
    "sparse beyond its width": (sp.csr_array((np.array([SECRET]), np.array([7]), np.array([0, 1])), (1, 2)), OUTSIDE),
    "sparse before its first": (sp.csr_array((np.array([SECRET]), np.array([-1]), np.array([0, 1])), (1, 2)), OUTSIDE),
}


@pytest.mark.guarantee("labeldp.online:quantize", "silent")
@pytest.mark.parametrize(("losses", "words"), BAD.values(), ids=BAD.keys())
def test_what_is_no_loss_is_refused_without_a_word_about_it(losses: object, words: str) -> None:
    with pytest.raises(InputError) as refused:
        quantize(losses, experts=2)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([0, 256], "levels must be integers from 0 to 255"),
        ([-1, 3], "levels must be integers from 0 to 255"),
        ([0.0, 1.0], "levels must be integers from 0 to 255; these are floats, and losses go to update"),
        ([True, False], "levels must be integers from 0 to 255; these are truth values, and losses go to update"),
        (["1", "2"], "levels must be integers from 0 to 255; these are text, and losses go to update"),
        ([0, 1, 2], "levels have 3 columns, but there are 2 experts"),
        ([[]], "levels have 0 columns, but there are 2 experts"),
        (3, f"levels have shape (): {SHAPE}"),
        (sp.csr_array([[0, 256]]), "levels must be integers from 0 to 255"),
        (
            [0, 2**64],
            "levels must be integers from 0 to 255; these are objects of another kind, and losses go to update",
        ),
    ],
    ids=str,
)
def test_what_is_no_level_is_refused_without_a_word_about_it(levels: object, words: str) -> None:
    with pytest.raises(InputError) as refused:
        check_levels(levels, experts=2)
    assert str(refused.value) == words


def test_only_two_widths_of_levels() -> None:
    for check in (quantize, check_levels):
        with pytest.raises(InputError, match="bits must be 8 or 16"):
            check([0.5], 12)
