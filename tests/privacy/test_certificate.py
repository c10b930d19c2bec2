"""Receipts, releases and what is public."""

import json
from fractions import Fraction

import numpy as np
import pytest

from labeldp.privacy import (
    Certificate,
    Charge,
    InputError,
    Neighbors,
    PrivacyLoss,
    Public,
    RandomnessKind,
    Release,
    Trust,
    exp_bounds,
    gather,
    total_loss,
    weak_promise,
)
from labeldp.privacy.certificate import requested_delta

pure = PrivacyLoss.pure


def charge(name: str, loss: PrivacyLoss, *path: tuple[str, int]) -> Charge:
    """A charge for a part of the records."""
    return Charge(name, path, loss, {"mechanism": "Example"})


def release(value: object, *charges: Charge, **changed: object) -> Release:
    """A release that these charges paid."""
    fields = {
        "dataset": "labels",
        "neighbors": Neighbors.ONE_LABEL,
        "trust": Trust.LOCAL,
        "randomness": RandomnessKind.SYSTEM,
        "published": "an example",
    }
    return Release(value, Certificate(entries=charges, **{**fields, **changed}), "the mechanism")


@pytest.mark.guarantee("labeldp.privacy:joint_loss", "never_less")
def test_charges_of_one_record_are_never_understated() -> None:
    """Whatever splits it went through."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        splits = {name: rng.integers(0, 3, 12) for name in "abc"}
        inner = rng.integers(0, 2, 12)
        charges, members = [], []
        for i in range(8):
            loss = pure(int(rng.integers(1, 5)))
            name, part, below = rng.choice(list("abc")), int(rng.integers(0, 3)), int(rng.integers(0, 2))
            path = [(), ((name, part),), ((name, part), ("inner " + name, below))][int(rng.integers(0, 3))]
            inside = np.ones(12, dtype=bool) if not path else splits[name] == part
            charges.append(charge(str(i), loss, *path))
            members.append(inside & (inner == below) if len(path) == 2 else inside)
        most = max(sum(c.loss.max_loss for c, m in zip(charges, members, strict=True) if m[row]) for row in range(12))
        assert total_loss(charges).max_loss >= most


def test_parts_of_one_split_cost_the_worst_and_splits_add_up() -> None:
    left, right, far = charge("1", pure(1), ("s", 0)), charge("2", pure(3), ("s", 1)), charge("3", pure(2), ("t", 0))
    assert total_loss([left, right]).epsilon() == 3
    assert total_loss([left, left]).epsilon() == 2
    assert total_loss([left, right, far]).epsilon() == 5
    assert total_loss([left, right, charge("4", pure(1))]).epsilon() == 4
    nested = [charge("5", pure(1), ("s", 0), ("u", 0)), charge("6", pure(4), ("s", 0), ("u", 1))]
    assert total_loss([left, right, *nested]).epsilon() == 5
    assert total_loss([]).epsilon() == 0


@pytest.mark.parametrize(
    ("epsilon", "factor"),
    [
        (1, "2.719"),
        (10, "22026.466"),
        (12, "163,000"),
        (20, "486,000,000"),
        (50, "10^22"),
        (51, "10^23"),
        (300, "10^131"),
        (1000, "10^435"),
    ],
)
def test_a_large_epsilon_is_said_in_words_too(epsilon: int, factor: str) -> None:
    """Where an epsilon is asked for, one above 10 is called weak; the factor is rounded up."""
    if factor.startswith("10^"):
        assert 10 ** int(factor[3:]) >= exp_bounds(Fraction(epsilon))[1] > 10 ** (int(factor[3:]) - 1)
    else:
        assert float(factor.replace(",", "")) == pytest.approx(np.exp(epsilon), rel=5e-3)
        assert float(factor.replace(",", "")) >= np.exp(epsilon)
    said = weak_promise(epsilon)
    words = f"epsilon = {epsilon} lets the odds about one label change by a factor of {factor}: this is a weak promise"
    assert said == ("" if epsilon <= 10 else words)


def test_the_sentence() -> None:
    certificate = release(1, charge("1", PrivacyLoss.response(1, 10)), assumptions=("the moon is round",)).certificate
    text = certificate.at(delta=0)
    assert text.startswith(
        "Label differential privacy with epsilon = 1 and delta = 0 for every label of the dataset 'labels'"
    )
    assert "the label of one record is replaced" in text
    assert text.endswith("This holds on condition that: the moon is round.")
    assert "cryptographic, seeded by the operating system" in text
    assert "SIMULATION" in release(1, randomness=RandomnessKind.SIMULATION).certificate.at()


@pytest.mark.parametrize(
    ("neighbors", "replaced", "otherwise"),
    [
        (Neighbors.ONE_LOSS, "one round's loss function is replaced;", "Changing the losses of any one round makes"),
        (
            Neighbors.ZERO_OUT,
            "one round's loss function is replaced by zero;",
            "Changing the losses of any one round to zero, or back, makes",
        ),
    ],
)
def test_the_sentence_about_rounds(neighbors: Neighbors, replaced: str, otherwise: str) -> None:
    certificate = release(1, charge("1", pure(1)), neighbors=neighbors, trust=Trust.CENTRAL).certificate
    text = certificate.at(delta=0)
    assert text.startswith(
        "Differential privacy with epsilon = 1 and delta = 0 for every round's losses of the dataset 'labels'"
    )
    assert replaced + " a trusted curator sees all losses and releases a randomized result." in text
    assert otherwise in text
    assert "label differential" not in text.lower() and "every label" not in text


def test_the_sentence_never_promises_more_than_the_numbers() -> None:
    assert "epsilon = 1.00001 and" in release(1, charge("1", pure("1.0000001"))).certificate.at()
    assert "delta = 1.23456789e-06 " in release(1, charge("1", pure(1))).certificate.at("1.23456789e-6")
    unbounded = release(1, charge("1", PrivacyLoss.gaussian(1.0))).certificate
    assert unbounded.at().startswith("No finite epsilon is promised at delta = 0 ")
    for delta in (1e-3, 1e-6, 1e-9):
        stated = float(unbounded.at(delta).split("epsilon = ")[1].split(" ")[0])
        assert unbounded.entries[0].loss.delta(stated) <= delta


def test_a_certificate_survives_json() -> None:
    loss = PrivacyLoss.approximate("0.3", "1e-7") + PrivacyLoss.gaussian(0.1) * 3
    before = release(1, charge("1", loss, ("s", 1)), charge("2", pure(1)), assumptions=("a", "b")).certificate
    assert Certificate.from_json(json.loads(json.dumps(before.to_json()))) == before


@pytest.mark.parametrize("path", ["entries", "dataset", "neighbors", "trust", "randomness", "published", "assumptions"])
@pytest.mark.parametrize("value", [3, None, "nonsense", [{"id": 1}]])
def test_what_is_no_certificate_is_refused(path: str, value: object) -> None:
    good = release(1, charge("1", pure(1))).certificate.to_json()
    if path in ("dataset", "published", "assumptions"):
        del good[path]
    else:
        good[path] = value
    with pytest.raises(InputError, match="this is not a certificate of labeldp"):
        Certificate.from_json(good)


@pytest.mark.parametrize("value", [None, [], {}, "text", 3])
def test_json_of_another_shape_is_no_certificate(value: object) -> None:
    with pytest.raises(InputError, match="this is not a certificate of labeldp"):
        Certificate.from_json(value)


def test_numbers_out_of_range_are_no_certificate() -> None:
    good = release(1, charge("1", pure(1))).certificate.to_json()
    good["entries"][0]["loss"][0][0]["epsilon"] = "1/0"
    with pytest.raises(InputError, match="this is not a certificate of labeldp"):
        Certificate.from_json(good)


@pytest.mark.parametrize("asked", [0, "0.5", 1, "1.5", -1])
def test_the_delta_that_was_asked_for_lies_from_0_to_1(asked: object) -> None:
    entry = Charge("one", (), pure(1), {"mechanism": "Example", "delta": str(asked)})
    if 0 <= Fraction(str(asked)) <= 1:
        assert requested_delta([charge("other", pure(1)), entry]) == Fraction(str(asked))
    else:
        with pytest.raises(InputError, match="this is not a certificate"):
            requested_delta([entry])


def test_post_processing_costs_nothing_and_has_no_mechanism() -> None:
    first = release(3, charge("1", pure(1)))
    second = first.map(lambda value: value + 1)
    assert (second.value, second.certificate, second.mechanism) == (4, first.certificate, None)


def test_joined_releases_are_charged_once_each() -> None:
    one, two, three = charge("1", pure(1), ("s", 0)), charge("2", pure(2), ("s", 1)), charge("3", pure(4))
    first, second, third = release(1, one), release(2, two, three, trust=Trust.CENTRAL), release(3, three)
    joined = gather([first, second, third, first], lambda *values: sum(values))
    assert joined.value == 7
    assert {entry.id for entry in joined.certificate.entries} == {"1", "2", "3"}
    assert joined.certificate.epsilon() == 6
    assert joined.certificate.trust is Trust.CENTRAL
    assert joined.mechanism is None


def test_joined_releases_keep_the_weaker_word() -> None:
    kinds = [RandomnessKind.SYSTEM, RandomnessKind.SIMULATION, RandomnessKind.KEYED]
    releases = [
        release(i, randomness=kind, assumptions=(kind.name,), dataset=kind.name) for i, kind in enumerate(kinds)
    ]
    certificate = gather(releases, lambda *values: None).certificate
    assert certificate.randomness is RandomnessKind.SIMULATION
    assert certificate.assumptions == ("SYSTEM", "SIMULATION", "KEYED")
    assert certificate.dataset == "SYSTEM and SIMULATION and KEYED"


def test_releases_that_cannot_be_joined_are_refused() -> None:
    with pytest.raises(InputError, match="releases must hold at least one release"):
        gather([], lambda: None)
    with pytest.raises(InputError, match="releases must share one neighboring relation"):
        gather([release(1), release(2, neighbors=Neighbors.FULL)], lambda *values: None)


@pytest.mark.parametrize("why", ["", "  ", None, 3])
def test_public_needs_a_reason(why: object) -> None:
    with pytest.raises(InputError, match="why must say in words for what reason"):
        Public(np.zeros(3), why=why)


def test_reprs_show_no_value() -> None:
    secret = np.array([987654321])
    assert "987654321" not in repr(Public(secret, why="w")) + repr(release(secret)) + str(release(secret))
