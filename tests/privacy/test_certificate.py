"""Receipts, releases and what is public."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import labeldp as ldp
from labeldp.privacy import (
    Certificate,
    Charge,
    InputError,
    PrivacyLoss,
    Public,
    RandomnessKind,
    Release,
    Trust,
    Unit,
    exp_bounds,
    gather,
    requested_delta,
    total_loss,
    weak_promise,
)

pure = PrivacyLoss.pure


def charge(name: str, loss: PrivacyLoss, *path: tuple[str, int]) -> Charge:
    """A charge for a part of the records."""
    return Charge(name, path, loss, {"mechanism": "Example"})


def release(value: object, *charges: Charge, **changed: object) -> Release:
    """A release that these charges paid."""
    fields = {
        "dataset": "labels",
        "neighbors": Unit.ONE_LABEL,
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
    words = f"epsilon = {epsilon} is a weak guarantee: the odds about one label can change {factor}-fold"
    assert said == ("" if epsilon <= 10 else words)


def lines(certificate: Certificate, delta: object = 0) -> dict[str, str]:
    """The four lines by name."""
    rows = [row.partition(":") for row in certificate.at(delta).splitlines()]
    return {name: text.strip() for name, _, text in rows}


def test_four_lines() -> None:
    certificate = release(1, charge("1", PrivacyLoss.response(1, 10)), assumptions=("the moon is round",)).certificate
    assert lines(certificate) == {
        "Protects": "one label of dataset 'labels' (local: noise is added to each label)",
        "Guarantee": "ε = 1, δ = 0. Any output is at most 2.719 times as likely under another label, beyond what other "
        "releases of the same records tell.",
        "Published": "an example",
        "Conditions": "1. the moon is round  2. the decision to show this release does not depend on any output",
    }


def test_one_condition_has_no_number_and_none_is_said() -> None:
    paid = release(1, charge("1", pure(1))).certificate
    assert lines(paid)["Conditions"] == "the decision to show this release does not depend on any output"
    assert lines(release(1).certificate)["Conditions"] == "none"


def test_a_printed_release_is_its_certificate() -> None:
    entry = Charge("1", (), PrivacyLoss.gaussian(0.1), {"mechanism": "Example", "delta": "1e-6"})
    paid = release(1, entry)
    assert str(paid) == str(paid.certificate) == paid.certificate.at("1e-6")


def test_a_printed_certificate_names_the_budget_if_its_releases_have_none_together() -> None:
    budgets = ((Fraction(3), Fraction("1e-6")),)
    entries = [
        Charge(name, (), PrivacyLoss.gaussian(0.1), {"mechanism": "Example", "delta": "1e-7"}, {}, None, "a", budgets)
        for name in "12"
    ]
    certificate = release(1, *entries).certificate
    assert "ε = 3, δ = 1e-06 (the whole budget, for all releases" in str(certificate)
    assert lines(certificate)["Guarantee"] == (
        "NONE at δ = 0 for these releases together: their budget has δ = 1e-06. Ask at that δ, or about each release "
        "alone."
    )


def test_a_simulation_guarantees_nothing() -> None:
    certificate = release(1, charge("1", pure(1)), randomness=RandomnessKind.SIMULATION).certificate
    assert certificate.at().splitlines()[0] == "SIMULATION – seeded noise, no privacy"
    assert lines(certificate)["Guarantee"].startswith("NONE. With secret noise: ε = 1, δ = 0.")


def test_no_reason_looks_like_another_line() -> None:
    """A reason with line breaks cannot add a guarantee."""
    breaks = "\n\r\v\f\x85\u2028"
    reason = breaks.join(["public", "Guarantee:  ε = 0, δ = 0."])
    certificate = release(1, charge("1", pure(1)), assumptions=(reason,), published=reason).certificate
    assert len(certificate.at().splitlines()) == 4


@pytest.mark.parametrize(
    ("neighbors", "protected", "otherwise"),
    [
        (Unit.ONE_LOSS, "the losses of one round of", "under other losses of the round,"),
        (
            Unit.ZERO_OUT,
            "the losses of one round (against zero losses) of",
            "under zero losses of the round, and the reverse,",
        ),
    ],
)
def test_the_lines_of_rounds(neighbors: Unit, protected: str, otherwise: str) -> None:
    certificate = release(1, charge("1", pure(1)), neighbors=neighbors, trust=Trust.CENTRAL).certificate
    found = lines(certificate)
    assert found["Protects"] == f"{protected} dataset 'labels' (central: a trusted curator sees the losses)"
    assert otherwise in found["Guarantee"]
    assert "one label" not in certificate.at()


def test_a_guarantee_is_rounded_up() -> None:
    assert "ε = 1.00001, δ" in release(1, charge("1", pure("1.0000001"))).certificate.at()
    assert "δ = 1.23456789e-06. " in release(1, charge("1", pure(1))).certificate.at("1.23456789e-6")
    unbounded = release(1, charge("1", PrivacyLoss.gaussian(1.0))).certificate
    assert lines(unbounded)["Guarantee"] == "NONE at δ = 0: no finite ε holds. Ask at a larger δ."
    for delta in (1e-3, 1e-6, 1e-9):
        stated = float(lines(unbounded, delta)["Guarantee"].split("ε = ")[1].split(",")[0])
        assert unbounded.entries[0].loss.delta(stated) <= delta


def test_a_set_of_outputs_has_the_factor_and_delta() -> None:
    said = lines(release(1, charge("1", PrivacyLoss.approximate("0.5", "1e-6"))).certificate, "1e-6")["Guarantee"]
    assert said.startswith(
        "ε = 0.5, δ = 1e-06. The probability of any set of outputs is at most 1.649 times that under another label, "
        "plus 1e-06"
    )


def test_a_sum_speaks_of_these_outputs() -> None:
    said = lines(release(1, charge("1", pure(1)), charge("2", pure(2))).certificate)["Guarantee"]
    assert said.startswith("a sum of ε = 3 for these outputs; others might have cost more.")
    assert "δ" not in said


def test_a_sum_on_one_part_does_not_hide_the_delta_of_another() -> None:
    charges = [
        charge("1", pure(1), ("split", 0)),
        charge("2", pure(2), ("split", 0)),
        charge("3", PrivacyLoss.approximate("0.5", "1e-6"), ("split", 1)),
    ]
    rows = lines(release(1, *charges).certificate, "1e-6")
    assert rows["Guarantee"].startswith("a sum of ε = 3 for these outputs")
    assert rows["Guarantee"].endswith("Records of the other parts: ε = 0.5, δ = 1e-06.")
    assert "the decision to show this release" in rows["Conditions"]
    covered = lines(release(1, *charges[:2], charge("3", pure(2), ("split", 1))).certificate, "1e-6")
    assert "other parts" not in covered["Guarantee"]


def test_a_larger_part_does_not_hide_that_another_is_a_sum() -> None:
    charges = [charge("1", pure(9), ("split", 0))] + [charge(str(i), pure(1), ("split", 1)) for i in (2, 3)]
    rows = lines(release(1, *charges).certificate)
    assert rows["Guarantee"].startswith("ε = 9, δ = 0.")
    assert "Records of some parts: a sum for these outputs; others might have cost more." in rows["Guarantee"]


def test_control_characters_of_a_reason_are_escaped() -> None:
    certificate = release(1, charge("1", pure(1)), assumptions=("good\x1b[2K\rGuarantee:  ε = 0",)).certificate
    assert "\x1b" not in certificate.at() and "\r" not in certificate.at() and len(certificate.at().splitlines()) == 4


def test_a_large_epsilon_is_called_weak() -> None:
    assert "WARNING: weak guarantee." in release(1, charge("1", pure(11))).certificate.at()
    assert "WARNING" not in release(1, charge("1", pure(10))).certificate.at()


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
    with pytest.raises(InputError, match="releases must share a unit of protection"):
        gather([release(1), release(2, neighbors=Unit.ONE_LOSS)], lambda *values: None)


@pytest.mark.parametrize("why", ["", "  ", None, 3])
def test_public_needs_a_reason(why: object) -> None:
    with pytest.raises(InputError, match="why is required: state why the value does not depend on the private labels"):
        Public(np.zeros(3), why=why)


def test_reprs_show_no_value() -> None:
    secret = np.array([987654321])
    assert "987654321" not in repr(Public(secret, why="w")) + repr(release(secret)) + str(release(secret))


def test_one_charge_is_stated_in_one_way() -> None:
    curator = ldp.Curator(["no", "yes"] * 20, domain=ldp.Classes(("no", "yes")), budget=ldp.Budget(20))
    release = curator.release(ldp.RandomizedResponse(domain=curator.domain, epsilon=20), rng=ldp.SystemRandomness())
    [charge] = release.certificate.entries
    cheap = replace(release.certificate, entries=(replace(charge, loss=ldp.PrivacyLoss.pure(1)),))
    with pytest.raises(InputError, match="state one charge in two ways"):
        gather([release, ldp.Release(None, cheap)], lambda *_: None)
