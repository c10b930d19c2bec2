"""Every public mechanism keeps the whole contract, and every word of 64 bits is accounted for."""

import inspect
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from architecture.source import promises
from labeldp.bags import NoisyWeightedLLP, WeightedLBA
from labeldp.mechanisms import (
    MECHANISMS,
    Classes,
    DiscreteLaplace,
    FiniteMechanism,
    Interval,
    Mechanism,
    RandomizedResponse,
    RandomizedResponseTopK,
    RandomizedResponseWithPrior,
)
from labeldp.privacy import WORD, InputError, KeyedRandomness, Trust, exp_bounds, positive_epsilon
from labeldp.privacy.certificate import JOINT
from labeldp.sampling import AliasTable
from labeldp.testing import ContractViolation, check_mechanism, joint_laws
from mechanisms.examples import CLASS_PRIOR, EXAMPLES, PRIORS
from sampling.words import answers, preimages


def leaves(kind: type) -> set[type]:
    """The concrete classes of the package below a class."""
    below = set().union(*(leaves(child) for child in kind.__subclasses__()))
    own = set() if inspect.isabstract(kind) or not kind.__module__.startswith("labeldp.") else {kind}
    return below | own


def test_no_mechanism_is_missing_here() -> None:
    assert leaves(Mechanism) == {type(make(1)) for make in EXAMPLES.values()}
    assert {kind.__name__ for kind in leaves(Mechanism)} == set(MECHANISMS)
    for name, entry in MECHANISMS.items():
        room = import_module(".".join(entry.path.split(".")[:2]).partition(":")[0])
        assert getattr(room, name) is entry.load()


@cache
def example(name: str) -> Mechanism:
    """Return an example at epsilon = 1; some solve linear programs."""
    return EXAMPLES[name](1)


def guarantees(name: str) -> list[pytest.MarkDecorator]:
    """Marks of the guarantees that the contract shows: those of an example's own epsilon, and delta."""
    kind = type(example(name))
    owner = f"{'.'.join(kind.__module__.split('.')[:2])}:{kind.__name__}"
    return [pytest.mark.guarantee(*promise) for promise in PROMISES if promise[0] == owner]


PROMISES = [promise for promise in promises() if promise[1] in ("pure", "approximate", "prior_charged")]

# Telling 10 % apart at epsilon = 0.1 takes so many draws of nine bits that two bits stand for them.
SETTINGS = [
    pytest.param(name, epsilon, marks=guarantees(name) + [pytest.mark.slow] * (epsilon in (0.1, 4)))
    for name in EXAMPLES
    for epsilon in (0.1, 0.5, 1, 4)
    if (name, epsilon) not in [("nine bits", 0.1), ("two groups of nine classes", 0.1)]
]


@pytest.mark.parametrize(("name", "epsilon"), SETTINGS)
def test_a_mechanism_keeps_its_contract(name: str, epsilon: float) -> None:
    check_mechanism(EXAMPLES[name](epsilon))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_repr_shows_no_public_array(name: str) -> None:
    """It says what a mechanism is; what it was made from may hold millions of numbers."""
    mechanism = example(name)
    for text in (repr(mechanism), str(mechanism), mechanism.published):
        assert len(text) < 1000
        assert shown_arrays(text, mechanism.packed().values()) == []


def shown_arrays(text: str, arrays: Iterable[Any]) -> list[str]:
    """Arrays that a text shows, as numpy or a list prints their first numbers."""
    heads = [np.ravel(array)[:3] for array in arrays if array is not None and np.size(array) > 3]
    printed = [text for head in heads for text in (str(head)[1:-1], str(head.tolist())[1:-1])]
    return [head for head in printed if head in text] + ["array("] * ("array(" in text)


def test_an_array_in_a_repr_is_seen() -> None:
    array = np.array([1, 0, 2, 0])
    assert shown_arrays(f"Leaky({array})", [array]) == ["1 0 2"]
    assert shown_arrays(f"Leaky({array.tolist()})", [array]) == ["1, 0, 2"]
    assert shown_arrays(f"Leaky({array!r})", [array]) == ["1, 0, 2", "array("]


PURE = [
    name
    for name in EXAMPLES
    if not isinstance(example(name), NoisyWeightedLLP | WeightedLBA) and not getattr(example(name), "delta", 0)
]


@pytest.mark.parametrize("epsilon", ["1e-30", 1e-300])
@pytest.mark.parametrize("name", PURE)
def test_an_epsilon_that_64_bits_cannot_express_is_refused(name: str, epsilon: str) -> None:
    """Also at another epsilon of a mechanism that is there; with a delta there is noise for any epsilon.

    Two classes at epsilon = 1e-30 were released by fair coins and charged, and then the noise had no inverse.
    """
    for make in (EXAMPLES[name], example(name).with_epsilon):  # type: ignore[attr-defined]
        with pytest.raises(InputError, match=r"epsilon.* too small"):
            make(epsilon)
    with pytest.raises(InputError, match="epsilon must be positive"):
        example(name).with_epsilon(0)  # type: ignore[attr-defined]


@pytest.mark.guarantee("labeldp.mechanisms:ResponseLaw", "pure")
@pytest.mark.parametrize("name", [name for name in EXAMPLES if isinstance(example(name), FiniteMechanism)])
@pytest.mark.parametrize("epsilon", ["0.0001", "0.6931471805599453", "7", "44.4", "300"])
def test_no_ratio_of_weights_exceeds_e_to_the_epsilon(name: str, epsilon: str) -> None:
    mechanism = EXAMPLES[name](epsilon)
    assert isinstance(mechanism, FiniteMechanism)
    limit = exp_bounds(positive_epsilon(epsilon))[0]
    for rows in joint_laws(mechanism):
        assert len({sum(row) for row in rows}) == 1
        for column in zip(*rows, strict=True):
            assert 0 < max(column) <= limit * min(column) or max(column) == 0


@pytest.mark.parametrize("classes", [2, 3, 10, 127, 128, 129, 300])
@pytest.mark.parametrize("epsilon", [0.3, 2, 40, 60])
def test_every_word_of_randomized_response_is_accounted_for(classes: int, epsilon: float) -> None:
    mechanism = RandomizedResponse(domain=Classes(classes), epsilon=epsilon)
    cuts = [i * mechanism.law.lie for i in range(classes)]
    for code in {0, 1, classes // 2, classes - 1}:
        assert preimages(answers(mechanism, code), cuts, classes) == list(mechanism.weights()[code])


@pytest.mark.parametrize("record", range(4))
@pytest.mark.parametrize("epsilon", [0.3, 45])
def test_every_word_of_a_candidate_response_is_accounted_for(record: int, epsilon: float) -> None:
    mechanism = RandomizedResponseWithPrior(domain=Classes(3), epsilon=epsilon, prior=PRIORS)
    law = mechanism.laws[int(mechanism.sizes[record])]
    cuts = [step * i for step in (law.lie, law.uniform) for i in range(law.size)]
    for code in range(3):
        assert preimages(answers(mechanism, code, record), cuts, 3) == list(mechanism.weights()[record, code])


def test_every_word_of_the_top_candidates_is_accounted_for() -> None:
    mechanism = RandomizedResponseTopK(domain=Classes(4), epsilon=1, prior=CLASS_PRIOR, k=2)
    law = mechanism.laws[2]
    for code in range(4):
        counts = preimages(answers(mechanism, code), [law.lie, law.uniform], 4)
        assert counts == list(mechanism.weights()[code])
        assert counts[0] == counts[2] == 0


def test_every_word_of_discrete_laplace_is_accounted_for() -> None:
    mechanism = DiscreteLaplace(domain=Interval(0, 1, grid=6), epsilon=2)
    table = AliasTable.of([*mechanism.half[:0:-1], *mechanism.half])
    share = 1 << table.shift
    cuts = [c * share + part for c, at in enumerate(table.thresholds.tolist()) for part in (0, at)]
    for code in range(6):
        assert preimages(answers(mechanism, code), cuts, 6) == list(mechanism.weights()[code])


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_mechanism_is_may_be_published(name: str) -> None:
    mechanism = EXAMPLES[name](1.0000001)
    assert "1.0000001" in str(mechanism)
    assert JOINT not in mechanism.published  # it separates phrases
    assert mechanism == EXAMPLES[name]("1.0000001")
    assert mechanism != EXAMPLES[name](1.0000002)
    hash(mechanism)


@pytest.mark.parametrize("name", EXAMPLES)
def test_stored_arrays_restore_the_same_mechanism(name: str) -> None:
    mechanism = example(name)
    arrays = mechanism.arrays()
    if arrays is None:
        with pytest.raises(ValueError, match="has no arrays to restore"):
            mechanism.restored(np.zeros(1))
    else:
        assert mechanism.restored(np.array(arrays)) == mechanism
        assert mechanism.restored(np.array(arrays)).specification() == mechanism.specification()


def test_central_mechanisms_say_so() -> None:
    words = {"exponential", "permute", "histogram", "moment", "sum", "bags", "secret", "squared"}
    central = {name for name in EXAMPLES if words & set(name.replace(",", "").split())}
    assert {name for name, make in EXAMPLES.items() if make(1).trust is Trust.CENTRAL} == central


def test_one_lane_for_each_bit() -> None:
    """The bits of one record are drawn from different words, also under a key."""
    from labeldp.mechanisms import UnaryEncoding
    from labeldp.privacy import KeyedRandomness

    mechanism = UnaryEncoding(domain=Classes(64), epsilon=0.01)
    noisy = mechanism.randomize(np.zeros(400, dtype=np.uint8), rng=KeyedRandomness(b"k" * 32), ids=np.arange(400))
    bits = mechanism.named(noisy)[:, 1:]
    assert len({column.tobytes() for column in bits.T}) == 63
    assert len({row.tobytes() for row in bits}) == 400


class WithItsOwnContract(RandomizedResponse):
    """Brings a check that it fails from seed 5 on."""

    def contract(self, seed: int) -> None:
        """Refuse a large seed."""
        if seed > 4:
            raise ContractViolation("the seed is small")


class WithoutContract(RandomizedResponse):
    """Says nothing of its law."""

    contract = "nothing that is known"


def test_a_mechanism_brings_its_own_contract() -> None:
    mechanism = WithItsOwnContract(domain=Classes(2), epsilon=1)
    check_mechanism(mechanism, seed=4)
    with pytest.raises(ContractViolation, match="the seed is small"):
        check_mechanism(mechanism, seed=5)
    with pytest.raises(ContractViolation, match=r"contract must be .module:function"):
        check_mechanism(WithoutContract(domain=Classes(2), epsilon=1))


def test_weights_sum_to_all_words() -> None:
    assert {sum(row) for row in RandomizedResponse(domain=Classes(5), epsilon=1).weights().tolist()} == {WORD}


@pytest.mark.parametrize("name", EXAMPLES)
def test_keyed_noise_that_would_repeat_is_refused(name: str) -> None:
    """Row numbers begin anew in every part of a table: mapped over 50 parts of 1,000 labels under one key, all parts
    got the same noise, and where two parts' answers differed so did their labels.
    """
    mechanism = EXAMPLES[name](1.0)
    labels, key = np.zeros(mechanism.records or 20, dtype=mechanism.domain.dtype), KeyedRandomness(b"k" * 32)
    wanted = "ids must be given" if mechanism.trust is Trust.LOCAL else "noise that belongs to no record"
    with pytest.raises(InputError, match=wanted):
        mechanism.randomize(labels, rng=key)
    with pytest.raises(InputError, match="must not be a KeyedStream"):
        mechanism.randomize(labels, rng=key.stream(), ids=np.arange(len(labels)))
    named = key.bind(b"column, state, part")
    first, again = (mechanism.randomize(labels, rng=named, ids=np.arange(len(labels))) for _ in range(2))
    assert np.array_equal(first, again)
