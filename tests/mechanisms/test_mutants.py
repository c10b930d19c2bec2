"""Every mechanism that is broken on purpose must be caught, by the sentence that it breaks."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bags import mutants as bag_mutants
from labeldp.mechanisms import Classes, Interval, RandomizedResponseWithPrior
from labeldp.mechanisms.randomized_response import ResponseLaw
from labeldp.privacy import exp_bounds
from labeldp.testing import ContractViolation, check_mechanism
from mechanisms import mutants
from mechanisms.examples import GROUPS, MANY, public
from sampling.words import answers, preimages
from slow import mostly_slow

CLAIM = "the claimed delta(epsilon) is never below the true one"
COSTS = "(replacing one label costs at most epsilon|two steps cost at most twice)"
SAMPLER = "the sampler (follows|draws what) the weights"


def test_the_mutant_without_a_mutation_passes() -> None:
    check_mechanism(mutants.NoMutant(domain=Classes(4), epsilon=1))


@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 1, 4], [1]))
@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (mutants.LieMayBeTheTruth, SAMPLER),
        (mutants.LastClassNeverDrawn, SAMPLER),
        (mutants.UnderClaimed, CLAIM),
        (mutants.ClaimsAWiderResponse, CLAIM),
        (mutants.PriorSawTheLabel, CLAIM),
        (mutants.OutsideAnsweredOverAll, CLAIM),
        (mutants.RoundedDown, CLAIM),
        (mutants.DoesNotSumToOne, "weights sum to 2\\*\\*64"),
        (mutants.IgnoresIds, "keyed noise follows the record"),
        (mutants.DrawsItsOwnSeed, "the same rng draws the same"),
        (mutants.AnswersOutsideLabels, "a label outside of the domain is refused"),
        (mutants.BitsAtWholeEpsilon, CLAIM),
    ],
)
def test_a_broken_finite_mechanism_is_caught(mutant: type, sentence: str, epsilon: float) -> None:
    with pytest.raises(ContractViolation, match=sentence.replace("(epsilon)", "\\(epsilon\\)")):
        check_mechanism(mutant(domain=Classes(4), epsilon=epsilon))


@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 1, 4], [1]))
@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (mutants.HistogramAtWholeEpsilon, COSTS),
        (mutants.HistogramSampledAtWholeEpsilon, "the sampler follows the weights"),
        (mutants.LastCountWithoutNoise, "the sampler follows the weights"),
        (mutants.OneNoiseForAllClasses, "the sampler follows the weights"),
        (mutants.ExponentAtWholeEpsilon, COSTS),
    ],
)
def test_a_broken_mechanism_on_counts_is_caught(mutant: type, sentence: str, epsilon: float) -> None:
    with pytest.raises(ContractViolation, match=sentence):
        check_mechanism(mutant(domain=Classes(3), epsilon=epsilon, groups=GROUPS))


@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (mutants.LongestRow, "a replaced label moves no further than said"),
        (mutants.ChoiceSampledAtHalf, "the sampler follows the weights"),
    ],
)
def test_a_broken_sum_of_choices_is_caught(mutant: type, sentence: str) -> None:
    opposite = public([[[1.0, 0.5], [-1.0, 0.25], [0.1, 0.0]]] * 3)
    with pytest.raises(ContractViolation, match=sentence):
        check_mechanism(mutant(domain=Classes(3), epsilon=1, delta=1e-6, rows=opposite))


T5 = Interval(-5, 5, grid=11)


@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 1, 4], [1]))
@pytest.mark.parametrize(
    ("mutant", "arguments", "sentence"),
    [
        (mutants.PrintedCellNoise, {"domain": T5, "groups": GROUPS}, f"({CLAIM}|{COSTS})"),
        (mutants.SumSampledAtWholeRange, {"domain": T5, "groups": GROUPS}, "the sampler follows the weights"),
    ],
)
def test_a_broken_mechanism_on_cells_is_caught(
    mutant: type, arguments: dict[str, Any], sentence: str, epsilon: float
) -> None:
    with pytest.raises(ContractViolation, match=sentence.replace("(epsilon)", "\\(epsilon\\)")):
        check_mechanism(mutant(epsilon=epsilon, **arguments))


SIX = Interval(-1, 1, grid=6)
BLIND = "what is drawn beside the noise does not depend on labels"


@pytest.mark.parametrize("epsilon", mostly_slow([0.5, 1, 4], [1]))
@pytest.mark.parametrize(
    ("mutant", "arguments", "sentence"),
    [
        (bag_mutants.HalfTheRange, {}, CLAIM),
        (bag_mutants.HalfTheRange, {"noise": "gaussian", "delta": 1e-6}, CLAIM),
        (bag_mutants.BagsThatOverlap, {}, "a replaced label moves the sum of its own bag and no other"),
        (bag_mutants.NoiseKnowsTheLabels, {"noise": "gaussian", "delta": 1e-6}, BLIND),
    ],
)
def test_a_broken_sum_over_bags_is_caught(
    mutant: type, arguments: dict[str, Any], sentence: str, epsilon: float
) -> None:
    with pytest.raises(ContractViolation, match=sentence.replace("(epsilon)", "\\(epsilon\\)")):
        check_mechanism(mutant(6, domain=SIX, epsilon=epsilon, features=MANY, **arguments))


@pytest.mark.parametrize("weights", ["rademacher", "gaussian"])
@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (bag_mutants.WeightsSeeLabels, BLIND),
        (bag_mutants.ABagWithoutNoise, "every bag has as many noisy labels as it says"),
        (bag_mutants.NoiseOfHalfTheBags, CLAIM),
    ],
)
def test_broken_published_weights_are_caught(mutant: type, sentence: str, weights: str) -> None:
    with pytest.raises(ContractViolation, match=sentence.replace("(epsilon)", "\\(epsilon\\)")):
        check_mechanism(mutant(8, 4, 1.0, weights, domain=SIX, features=MANY))


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (bag_mutants.PublishesItsWeights, "weighted sums are published, and no weights"),
        (bag_mutants.KeepsItsWeights, "no weights are kept"),
        (bag_mutants.BagNoiseForgotten, "sums of labels have weights and noise"),
        (bag_mutants.ResidualTakenForGranted, "the residual counts what is noise or was assumed"),
    ],
)
def test_broken_secret_weights_are_caught(mutant: type, sentence: str, rows: int) -> None:
    with pytest.raises(ContractViolation, match=sentence):
        check_mechanism(mutant(20, rows, domain=SIX, features=MANY, epsilon=1, delta=1e-6))


def test_a_sampler_of_doubles_is_caught_by_its_words() -> None:
    mutant = mutants.DoubleSampler(domain=Classes(3), epsilon=30)
    cuts = [i * mutant.law.lie for i in range(3)]
    with pytest.raises(AssertionError, match="changes its answer where its weights say that it does not"):
        preimages(answers(mutant, 0), cuts, 3)


def outside_is_within(law: ResponseLaw, epsilon: Fraction) -> bool:
    """True when a label outside of the candidates cannot be told from one of them by more than epsilon."""
    limit = exp_bounds(epsilon)[1]
    columns = [(law.lie, law.keep, weight) for weight in (law.uniform, law.uniform_last)]
    return all(max(column) <= limit * min(column) for column in columns)


def test_a_ceiling_in_the_uniform_branch_is_caught() -> None:
    epsilon = Fraction(1, 10**6)
    law = ResponseLaw.of(65535, epsilon)
    assert outside_is_within(law, epsilon)
    assert not outside_is_within(mutants.UniformWithCeil(law.size, law.lie), epsilon)


def references_choice(prior: np.ndarray, epsilon: float) -> int:
    """The number of candidates in the reference implementation of RRWithPrior: k - 2 where k - 1 is meant."""
    sizes = np.arange(1, len(prior) + 1)
    return int(1 + np.argmax(np.cumsum(np.sort(prior)[::-1]) / (1 + (sizes - 2) * np.exp(-epsilon))))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 0.69])
@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_below_ln_2_a_uniform_prior_still_lets_the_answer_depend_on_the_label(classes: int, epsilon: float) -> None:
    uniform = np.full(classes, 1 / classes)
    mechanism = RandomizedResponseWithPrior(domain=Classes(classes), epsilon=epsilon, prior=public(uniform[None]))
    assert mechanism.sizes.tolist() == [classes]
    assert len({tuple(row) for row in mechanism.weights()[0]}) == classes
    assert references_choice(uniform, epsilon) == 1, "the mutant answers the same for every label"
