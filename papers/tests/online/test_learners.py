"""Means over coins agree with kernels that are played, and every learner is what its plan says."""

from fractions import Fraction

import numpy as np
import pytest

from labeldp.online import measured_regret, methods_of
from labeldp.privacy import as_randomness
from papers.online.bounds import theorem_3_2_epsilon
from papers.online.learners import BLIND, DELTA, FREE, PRINTED, Learner, chosen, learners, printed
from papers.online.regret import Gap

EXPERTS, ROUNDS, EPSILON, PLAYS = 4, 200, 8.0, 100

BETTER = "better-of-two"

LOSSES = Gap(ROUNDS, EXPERTS, 1, 0.3)


def learner(name: str) -> Learner:
    """The one of that name."""
    (found,) = [each for each in learners(EXPERTS, ROUNDS, EPSILON) if each.name == name]
    return found


@pytest.mark.parametrize("name", [FREE, *(name for name in methods_of("experts") if name != BETTER)])
def test_the_mean_over_coins_is_that_of_played_kernels(name: str) -> None:
    found, rng = learner(name), as_randomness(np.random.default_rng(0))
    assert found.kernel is not None and found.expected is not None
    played = np.array([measured_regret(found.kernel(), LOSSES.blocks(), rng=rng).regret for _ in range(PLAYS)])
    means = [found.expected(LOSSES.blocks(), seed).regret for seed in range(30)]
    error = np.hypot(played.std() / np.sqrt(PLAYS), np.std(means) / np.sqrt(30))
    assert abs(played.mean() - np.mean(means)) < 7.2 * error
    blind = learner(BLIND).expected
    assert blind is not None and abs(blind(LOSSES.blocks(), 0).regret - played.mean()) > 7.2 * error, "it can fail"


def test_private_learners_keep_what_they_were_planned_for() -> None:
    for name in methods_of("experts"):
        found = learner(name)
        assert found.kernel is not None
        loss = found.kernel().privacy_loss(ROUNDS)
        assert loss.within(Fraction(EPSILON), Fraction(DELTA)), name
        assert not loss.within(Fraction(EPSILON) / 2, Fraction(DELTA)), name
    free = learner(FREE).kernel
    assert free is not None and free().privacy_loss(ROUNDS).delta(10.0) == 1


def test_the_better_of_two_is_near_the_better_of_both_kinds() -> None:
    found = {each.name: each for each in learners(EXPERTS, 3000, EPSILON)}
    losses, rng = Gap(3000, EXPERTS, 0, 0.3), as_randomness(np.random.default_rng(0))
    better = found[BETTER].kernel
    assert better is not None and found[BETTER].expected is None
    played = np.mean([measured_regret(better(), losses.blocks(), rng=rng).regret for _ in range(3)])
    assert played < found[BETTER].bound and played < 100


def test_the_printed_formula_is_met_and_no_kernel_is_made_of_it() -> None:
    for experts, rounds, epsilon in ((4, 250, 8.0), (100, 10**5, 1.0), (1000, 10**5, 0.1)):
        found = printed(experts, rounds, epsilon)
        rate, batch, redraw = (found.parameters[name] for name in ("eta", "B", "p"))
        assert theorem_3_2_epsilon(rate, batch, redraw, rounds, DELTA) <= epsilon
        assert found.kernel is None and "unproven" in found.holds


def test_the_printed_formula_allows_little() -> None:
    """About the bound of the reference tables, 10414, at T = 10^5, d = 100, epsilon = 1."""
    assert printed(100, 10**5, 1.0).bound == pytest.approx(10_414, rel=0.02)


def test_a_plan_takes_what_has_the_smallest_bound_for_any_losses() -> None:
    safe = {each.name: each.bound for each in learners(EXPERTS, ROUNDS, EPSILON)}
    for name in (FREE, PRINTED, BLIND, BETTER, "doubling"):
        del safe[name]
    assert chosen(EXPERTS, ROUNDS, EPSILON) == min(safe, key=safe.__getitem__)
