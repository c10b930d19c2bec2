"""All labels of a user: what is charged covers every pair of neighbors, counted out; one map, and what refuses."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.bags import BagSum
from labeldp.bags import llp as llp_file
from labeldp.bags import sums as bag_sums
from labeldp.bags.llp import BagWeights
from labeldp.curator import (
    NO_USER,
    ONE_USER,
    PUBLIC_USERS,
    Curator,
    LedgerFile,
    first_records,
    user_names,
    users_digest,
)
from labeldp.curator import curator as curator_file
from labeldp.mechanisms import GaussianMoment, Groups, LaplaceHistogram, LaplaceMoment, LaplaceSum, inputs
from labeldp.privacy import InputError, LedgerError, PrivacyLoss, Public, Unit, set_fields
from labeldp.sampling import gaussian_law

SYSTEM = ldp.SystemRandomness()

USERS = np.array([0, 1, 0, 2, 1, 0])
"""One has three records, one two, and one a single one."""

ROWS = np.array([[2, 1], [1, -1], [2, 0], [-1, 2], [0, 1], [1, 1]]) / 4.0

EPSILONS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)

Law = np.ndarray


class Unsafe(AssertionError):
    """What was charged is below what neighbors show."""


def neighbors(classes: int) -> Iterator[tuple[Any, Any]]:
    """Yield every pair of label vectors that differ in the labels of one user alone."""
    for user in range(USERS.max() + 1):
        own = np.flatnonzero(user == USERS)
        for rest in itertools.product(range(classes), repeat=len(USERS) - len(own)):
            worlds = []
            for labels in itertools.product(range(classes), repeat=len(own)):
                worlds.append(np.insert(np.array(rest, dtype=int), own - np.arange(len(own)), labels))
            yield from itertools.permutations(worlds, 2)


def delta_between(p: Law, q: Law, epsilon: float) -> float:
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


def check_charge(loss: PrivacyLoss, pairs: Iterable[tuple[Law, Law]]) -> float:
    """Compare a charge with the exact laws of all pairs of neighbors; return how much of it the worst one needs.

    Raises:
        Unsafe: some pair tells more than was charged.
    """
    charges, used = {epsilon: loss.delta(epsilon) for epsilon in EPSILONS}, 0.0
    for p, q in pairs:
        for epsilon, charged in charges.items():
            found = delta_between(p, q, epsilon)
            if found > charged * (1 + 1e-9) + 1e-12:
                raise Unsafe(f"delta({epsilon}) is {found}, and {charged} was charged")
            used = max(used, found / charged) if charged > 1e-9 else used
    return used


def answer_pairs(mechanism: Any, rows: Any) -> Iterator[tuple[Law, Law]]:
    """Yield the laws of all answers together, of some records that are answered one by one, for all neighbors."""
    table = mechanism.matrix()

    def law(labels: Any) -> Law:
        joint = np.ones(1)
        for label in labels[rows]:
            joint = np.multiply.outer(joint, table[label])
        return joint.ravel()

    return ((law(one), law(other)) for one, other in neighbors(len(table)))


def curator_of(classes: int, users: Any = USERS, budget: float = 50, delta: float = 0.1) -> Curator:
    labels = np.zeros(len(USERS), dtype=int)
    return Curator(labels, domain=ldp.Classes(classes), budget=ldp.Budget(budget, delta), users=users)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_answers_cost_a_user_what_all_of_theirs_show_together(most: int) -> None:
    kept, rows = curator_of(2).limited(most)
    mechanism = ldp.RandomizedResponse(domain=kept.domain, epsilon=0.7)
    release = kept.release(mechanism, rng=SYSTEM)
    assert release.certificate.neighbors is Unit.ONE_USER
    assert release.certificate.epsilon(0) == pytest.approx(0.7 * most)
    used = check_charge(release.certificate.entries[0].loss, answer_pairs(mechanism, rows))
    assert used > 0.999  # and no less would do


def sum_pairs(mechanism: Any, sums: Callable[[Any], Any], reach: int) -> Iterator[tuple[Law, Law]]:
    """Yield the laws of all noisy sums together, integer by integer: noise, and noise that all neighbors' sums moved.

    Args:
        mechanism: has the law of its noise.
        sums: function from labels to exact sums.
        reach: noise beyond it is one outcome.
    """
    moves = {tuple((sums(one) - sums(other)).ravel().tolist()) for one, other in neighbors(2)}
    most = max(abs(each) for move in moves for each in move)
    noise = mechanism.noise_law(np.arange(-reach - most, reach + most + 1))
    for move in moves:
        p, q = np.ones(1), np.ones(1)
        for each in move:
            p, q = np.multiply.outer(p, _moved(noise, 0, most)), np.multiply.outer(q, _moved(noise, each, most))
        yield p.ravel(), q.ravel()


def _moved(noise: Law, move: int, most: int) -> Law:
    """Return the law of noise and a constant, where `most` places at either end are one outcome."""
    places = np.clip(np.arange(len(noise)) + move, most, len(noise) - 1 - most)
    return np.bincount(places, weights=noise, minlength=len(noise))


def moment(kind: Any, users: Any, rows: Any, resolution: int = 2, **more: Any) -> Any:
    features = Public(rows, why="made up")
    return kind(domain=ldp.Classes(2), features=features, resolution=resolution, users=users, **more)


LINE = np.array([[1.0], [0.5], [1.0], [-1.0], [-0.5], [1.0]])


def test_pure_sums_are_set_to_what_a_user_moves() -> None:
    curator = curator_of(2)
    mechanism = moment(LaplaceMoment, curator.users, LINE, epsilon=1.0)
    release = curator.release(mechanism, rng=SYSTEM)
    assert release.certificate.epsilon(0) == 1.0
    assert (
        0.5 < check_charge(release.certificate.entries[0].loss, sum_pairs(mechanism, mechanism.sums, 250)) <= 1 + 1e-9
    )


@pytest.mark.guarantee("labeldp.mechanisms:GaussianMoment", "users")
@pytest.mark.guarantee("labeldp.mechanisms:LaplaceMoment", "users")
def test_gaussian_sums_are_set_to_what_a_user_moves() -> None:
    curator = curator_of(2)
    mechanism = moment(GaussianMoment, curator.users, LINE, resolution=1, epsilon=2.0, delta=0.05)
    release = curator.release(mechanism, rng=SYSTEM)
    assert check_charge(release.certificate.entries[0].loss, sum_pairs(mechanism, mechanism.sums, 80)) > 0.7
    moves = [((mechanism.sums(one) - mechanism.sums(other)) ** 2).sum() for one, other in neighbors(2)]
    assert max(moves) == mechanism.sensitivity_square  # three rows of length one, in one direction


@pytest.mark.parametrize("domain", [ldp.Classes(2), ldp.Interval(0, 2, grid=3)])
@pytest.mark.parametrize("resolution", [3, 64, 4096])
def test_no_labels_of_a_user_move_a_sum_further(domain: Any, resolution: int) -> None:
    curator = Curator(np.zeros(6, dtype=int), domain=domain, budget=ldp.Budget(9, 0.1), users=USERS)
    features = Public(ROWS, why="made up")
    made = {"domain": domain, "features": features, "resolution": resolution, "users": curator.users}
    mechanism = GaussianMoment(**made, epsilon=1, delta=1e-3)
    moves = [mechanism.sums(one) - mechanism.sums(other) for one, other in neighbors(domain.size)]
    assert max(int((each**2).sum()) for each in moves) <= mechanism.sensitivity_square
    assert max(int(np.abs(each).sum()) for each in moves) <= mechanism.sensitivity_sum
    rows = mechanism.rows.steps.astype(float)
    lengths = [np.linalg.norm(rows[user == USERS], axis=1).sum() for user in range(3)]
    factor = 2**0.5 if isinstance(domain, ldp.Classes) else 2
    assert mechanism.sensitivity_square == pytest.approx((factor * max(lengths)) ** 2, rel=1e-3, abs=factor**2)


def test_counts_cost_a_user_as_much_for_each_label() -> None:
    curator, groups = curator_of(2), Public(np.array([0, 0, 1, 0, 1, 1]), why="made up")
    mechanism = LaplaceHistogram(domain=curator.domain, epsilon=0.5, groups=groups)
    release = curator.release(mechanism, rng=SYSTEM)
    assert release.certificate.epsilon(0) == 1.5
    sums = LaplaceSum(domain=curator.domain, epsilon=0.5, groups=groups)
    charged = curator.release(sums, rng=SYSTEM).certificate.entries[0].loss
    noise = SimpleNamespace(noise_law=lambda edges: sums.law_between(edges, [0]))
    assert check_charge(charged, sum_pairs(noise, sums.counts, 60)) > 0.5


BAGS = Public(np.array([0, 1, 0, 0, 1, 1]), why="made up")
"""The user with three records has two in the first bag, and one in the second."""


def bag_sum(users: Any, **more: Any) -> BagSum:
    return BagSum(3, domain=ldp.Classes(2), bags=BAGS, users=users, **more)


@pytest.mark.guarantee("labeldp.bags:BagSum", "users")
def test_sums_over_bags_are_set_to_what_a_user_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_sums, "MIN_STEPS", 1)
    curator = curator_of(2)
    pure = bag_sum(curator.users, epsilon=1.0)
    gaussian = bag_sum(curator.users, noise="gaussian", epsilon=2.0, delta=0.05)
    assert (pure.moves, pure.sensitivity) == ((3, 5, 2), 3)
    for mechanism, reach, least in ((pure, 100, 0.6), (gaussian, 60, 0.7)):
        release = curator.release(mechanism, rng=SYSTEM)
        assert release.certificate.neighbors is Unit.ONE_USER
        assert check_charge(release.certificate.entries[0].loss, sum_pairs(mechanism, mechanism.sums, reach)) > least
    moves = [((gaussian.sums(one) - gaussian.sums(other)) ** 2).sum() for one, other in neighbors(2)]
    assert max(moves) == gaussian.sensitivity_square
    assert gaussian.stddev < bag_sum(Public(np.zeros(6, int), why="one"), **GAUSSIAN).stddev


GAUSSIAN = {"noise": "gaussian", "epsilon": 2.0, "delta": 0.05}


def test_users_of_bags_are_those_of_the_curator() -> None:
    curator = curator_of(2)
    assert curator.cost(bag_sum(None, epsilon=1.0)).epsilon(0) == 3
    with pytest.raises(InputError, match="must be made for the users of the curator"):
        curator.release(bag_sum(Public(np.zeros(6, int), why="one"), epsilon=1.0), rng=SYSTEM)
    lba = ldp.bags.WeightedLBA(
        3,
        domain=ldp.Classes(2),
        bags=BAGS,
        features=Public(ROWS, why="made up"),
        bag_noise=9.0,
        epsilon=None,
        delta=None,
    )
    for refused in (bag_sum(None, **GAUSSIAN), llp(None, stddev=1.0), lba):
        with pytest.raises(InputError, match="protects single records only: give users=curator"):
            curator.release(refused, rng=SYSTEM)
    for users in (np.zeros(6, int), Public(np.zeros(5, int), why="too few"), Public(np.zeros(6), why="floats")):
        with pytest.raises(InputError, match="users must be"):
            bag_sum(users, epsilon=1.0)
    assert curator.ledger.spent.epsilon() == 0


def llp(users: Any, **more: Any) -> ldp.bags.NoisyWeightedLLP:
    return ldp.bags.NoisyWeightedLLP(3, 3, domain=ldp.Classes(2), bags=BAGS, users=users, **more)


def weighted_pairs(mechanism: ldp.bags.NoisyWeightedLLP) -> Iterator[tuple[Law, Law]]:
    """Yield the laws of all noisy sums together, for every choice of signs, which are published, and all neighbors."""
    stddevs = mechanism.bag_weights(np.zeros(4, dtype=np.int64)).stddevs
    assert len(set(stddevs)) == 1
    noise = SimpleNamespace(noise_law=lambda edges: gaussian_law(int(stddevs[0]), edges))
    for signs in itertools.product((-1, 1), repeat=len(USERS) - 1):
        steps = llp_file.STEPS_IN_WEIGHT * np.array((1, *signs))
        weights = BagWeights(steps, np.ones(len(steps), dtype=bool), stddevs)
        yield from sum_pairs(noise, lambda labels, weights=weights: mechanism.sums(labels, weights), 60)


@pytest.mark.guarantee("labeldp.bags:NoisyWeightedLLP", "users")
def test_weighted_sums_over_bags_are_set_to_what_a_user_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llp_file, "STEPS_IN_WEIGHT", 4)  # few outcomes, to count them all
    curator = curator_of(2)
    mechanism = llp(curator.users, stddev="auto", epsilon=2.0, delta=0.05)
    assert mechanism.moves == (3, 5, 2) and 0.0499 < mechanism.privacy_loss().delta(2) <= 0.05
    release = curator.release(mechanism, rng=SYSTEM)
    assert release.certificate.neighbors is Unit.ONE_USER
    assert check_charge(release.certificate.entries[0].loss, weighted_pairs(mechanism)) > 0.7
    assert len(ldp.fit_bags(ROWS, release).value.estimator.predict(ROWS)) == 6
    one = llp(Public(np.zeros(6, int), why="one"), stddev="auto", epsilon=2.0, delta=0.05)
    assert one.stddev > mechanism.stddev > llp(None, stddev="auto", epsilon=2.0, delta=0.05).stddev
    specified = mechanism.specification()
    assert specified["moves"] == [3, 5, 2] and "moves" not in llp(None, stddev=1.0).specification()


def test_weighted_sums_for_everybody_on_their_own_cost_what_records_cost() -> None:
    own = llp(Public(np.arange(6), why="each record is somebody's"), stddev=2.0)
    assert own.privacy_loss().epsilon(1e-6) == pytest.approx(
        llp(None, stddev=2.0).privacy_loss().epsilon(1e-6), rel=1e-6
    )


@pytest.mark.parametrize("more", [{"weights": "gaussian"}, {"paper_faithful": True}])
def test_gaussian_weights_refuse_users(more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match='weights must be "rademacher" with users: what Gaussian weights move'):
        llp(Public(USERS, why="made up"), stddev=1.0, **more)


def test_weighted_sums_that_forget_that_the_labels_of_a_user_add_up_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(llp_file, "STEPS_IN_WEIGHT", 4)
    whose = Public(USERS, why="made up")
    real = llp_file.NoisyWeightedLLP._protect
    for wrong in ((3, 1, 1), (3, 3, 2)):  # what one record moves; what three records in three bags move

        def protect(self: Any, users: Any, moves: tuple[int, int, int] = wrong) -> None:
            real(self, users)
            set_fields(self, moves=moves)

        monkeypatch.setattr(llp_file.NoisyWeightedLLP, "_protect", protect)
        mutant = llp(whose, stddev="auto", epsilon=2.0, delta=0.05)
        with pytest.raises(Unsafe):
            check_charge(mutant.privacy_loss(), weighted_pairs(mutant))


# Mutants: each is a line that could be wrong, and the count above finds it.


def test_a_charge_that_ignores_how_many_records_a_user_has_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Groups, "most", property(lambda self: 1))
    curator = curator_of(2)
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=0.7)
    loss = curator.release(mechanism, rng=SYSTEM).certificate.entries[0].loss
    with pytest.raises(Unsafe):
        check_charge(loss, answer_pairs(mechanism, np.arange(6)))


def test_a_cap_that_keeps_all_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curator_file, "first_records", lambda users, ids, most: np.arange(len(users)))
    kept, rows = curator_of(2).limited(1)
    mechanism = ldp.RandomizedResponse(domain=kept.domain, epsilon=0.7)
    # The charge is by the records that are kept, so that it stays true; but they are more than was asked for.
    assert kept.cost(mechanism).epsilon(0) > 0.7
    with pytest.raises(Unsafe):
        check_charge(mechanism.privacy_loss(), answer_pairs(mechanism, rows))


@pytest.mark.parametrize("more", [{"epsilon": 1.0}, GAUSSIAN])
def test_bags_with_the_noise_of_a_single_record_are_caught(more: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bag_sums, "MIN_STEPS", 1)
    single = bag_sum(None, **more)
    with pytest.raises(Unsafe):
        check_charge(single.privacy_loss(), sum_pairs(single, single.sums, 60))


@pytest.mark.parametrize("kind", [LaplaceMoment, GaussianMoment])
def test_sums_with_the_noise_of_a_single_record_are_caught(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"epsilon": 1.0} if kind is LaplaceMoment else {"epsilon": 2.0, "delta": 0.05, "resolution": 1}
    monkeypatch.setattr(inputs, "_joint_square", lambda squares, users: int(squares.max()))
    monkeypatch.setattr(inputs, "_sums", lambda values, users: values)
    curator = curator_of(2)
    mechanism = moment(kind, curator.users, LINE, **more)
    loss = curator.release(mechanism, rng=SYSTEM).certificate.entries[0].loss
    with pytest.raises(Unsafe):
        check_charge(loss, sum_pairs(mechanism, mechanism.sums, 80))


def test_users_with_one_record_each_cost_what_records_cost() -> None:
    everyone = Public(np.arange(6), why="made up")
    for kind, more in ((LaplaceMoment, {}), (GaussianMoment, {"delta": 1e-3})):
        own, plain = (moment(kind, users, ROWS, epsilon=1.0, **more) for users in (everyone, None))
        assert (own.sensitivity_square, own.sensitivity_sum) == (plain.sensitivity_square, plain.sensitivity_sum)
        assert own.noise_stddev == plain.noise_stddev and own != plain


# What a certificate says.


def test_the_certificate_and_its_sentence_say_user() -> None:
    curator = curator_of(3)
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=0.5)
    certificate = curator.release(mechanism, rng=SYSTEM).certificate
    sentence = certificate.at(0)
    assert "ε = 1.5, δ = 0" in sentence
    assert "all labels of one user of dataset" in sentence and "under other labels of the user" in sentence
    assert "the users do not depend on the private labels" in sentence
    assert ldp.Certificate.from_json(certificate.to_json()) == certificate


def test_joined_with_what_protects_records_it_counts_for_records() -> None:
    curator, single = curator_of(2), curator_of(2, None)
    mechanism = ldp.RandomizedResponse(domain=curator.domain, epsilon=0.5)
    releases = [each.release(mechanism, rng=SYSTEM) for each in (curator, single)]
    assert ldp.gather(releases, lambda *_: None).certificate.neighbors is Unit.ONE_LABEL
    assert ldp.gather(releases[:1] * 2, lambda *_: None).certificate.neighbors is Unit.ONE_USER


# One dataset, one map.


def of_file(path: Path, users: Any = USERS, revision: str | None = None, ids: Any = None) -> Curator:
    ledger = LedgerFile(path).dataset("people", revision=revision, budget=ldp.Budget(20))
    names = np.arange(6) * 7 if ids is None else ids
    return Curator([0, 1, 1, 0, 1, 0], domain=ldp.Classes(2), ledger=ledger, ids=names, users=users)


def answer(curator: Curator, epsilon: float = 0.5) -> ldp.Release[Any]:
    return curator.release(ldp.RandomizedResponse(domain=curator.domain, epsilon=epsilon), rng=SYSTEM)


@pytest.mark.guarantee("labeldp.curator:Curator", "users")
def test_with_users_what_is_charged_holds_for_all_labels_of_a_user_together(tmp_path: Path) -> None:
    first = answer(of_file(tmp_path / "l.db"))
    order = np.array([3, 1, 5, 0, 2, 4])
    ledger = LedgerFile(tmp_path / "l.db").dataset("people")
    names = np.array(["a", "b", "c"])[USERS]
    with pytest.raises(LedgerError, match="one map from records to users"):
        of_file(tmp_path / "l.db", names)  # other names are other users, as far as digests tell
    labels = np.array([0, 1, 1, 0, 1, 0])[order]
    more = {"domain": ldp.Classes(2), "ids": order * 7, "users": [str(each) for each in USERS[order]]}
    again = answer(Curator(labels, ledger=ledger, **more))
    assert (again.value == first.value[order]).all()
    assert again.certificate == first.certificate and ledger.spent.epsilon() == 1.5


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_another_map_is_refused_and_so_is_none(tmp_path: Path, kind: str) -> None:
    shared = ldp.Ledger(ldp.Budget(20)) if kind == "memory" else LedgerFile(tmp_path / "l.db").dataset(
        "people", budget=ldp.Budget(20)
    )  # fmt: skip
    made = {"labels": [0, 1, 1, 0, 1, 0], "domain": ldp.Classes(2), "ledger": shared}
    late, other = (Curator(**made, users=users) for users in (None, USERS[::-1]))
    answer(Curator(**made, users=USERS))
    for refused in (lambda: answer(late), lambda: Curator(**made)):
        with pytest.raises(LedgerError, match="protects all labels of one user, and this would protect one label only"):
            refused()
    for refused in (lambda: answer(other), lambda: Curator(**made, users=USERS[::-1])):
        with pytest.raises(LedgerError, match="has one map from records to users; nothing was charged"):
            refused()
    assert shared.spent.epsilon() == 1.5


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_charge_for_users_counts_for_records(tmp_path: Path, kind: str) -> None:
    shared = ldp.Ledger(ldp.Budget(20)) if kind == "memory" else LedgerFile(tmp_path / "l.db").dataset(
        "people", budget=ldp.Budget(20)
    )  # fmt: skip
    made = {"labels": [0, 1, 1, 0, 1, 0], "domain": ldp.Classes(2), "ledger": shared}
    assert answer(Curator(**made)).certificate.neighbors is Unit.ONE_LABEL
    assert answer(Curator(**made, users=USERS)).certificate.neighbors is Unit.ONE_USER
    assert answer(Curator(**made), 0.25).certificate.neighbors is Unit.ONE_LABEL
    assert shared.spent.epsilon() == 0.5 + 1.5 + 0.25


def test_the_same_answer_for_records_is_not_taken_for_one_for_users(tmp_path: Path) -> None:
    one, other = answer(of_file(tmp_path / "l.db", None)), answer(of_file(tmp_path / "l.db"))
    assert one.certificate.entries != other.certificate.entries
    assert other.certificate.epsilon() == 1.5


def test_a_revision_keeps_the_map(tmp_path: Path) -> None:
    answer(of_file(tmp_path / "l.db"))
    answer(of_file(tmp_path / "l.db", revision="corrected"))
    with pytest.raises(LedgerError, match="one map"):
        of_file(tmp_path / "l.db", USERS[::-1], revision="corrected")
    assert LedgerFile(tmp_path / "l.db").dataset("people").spent.epsilon() == 3


def test_the_records_that_are_kept_are_charged_to_the_same_map(tmp_path: Path) -> None:
    whole = of_file(tmp_path / "l.db")
    answer(whole)
    for most in (1, 2):
        answer(whole.limited(most)[0])
    assert whole.ledger.spent.epsilon() == 1.5 + 0.5 + 1.0  # nobody lies in one part only


def test_users_and_cohorts_refuse_each_other(tmp_path: Path) -> None:
    answer(of_file(tmp_path / "l.db"))
    with pytest.raises(LedgerError, match="takes no cohorts: it was charged for users"):
        LedgerFile(tmp_path / "l.db").add_cohort("people", "first", np.arange(6) * 7)
    answer(of_file(tmp_path / "m.db", None))
    LedgerFile(tmp_path / "m.db").add_cohort("people", "first", np.arange(6) * 7)
    with pytest.raises(LedgerError, match="users do not go with cohorts"):
        of_file(tmp_path / "m.db")


# Parts, and which records are kept.


def test_parts_keep_a_user_together() -> None:
    curator = curator_of(2)
    with pytest.raises(InputError, match="must keep all records of a user in one part"):
        curator.split(Public(np.array([0, 1, 1, 1, 1, 0]), why="made up"))
    one, other = curator.split(Public((USERS == 0).astype(int), why="made up"))
    answer(one), answer(other)
    assert curator.ledger.spent.epsilon() == 1.5
    assert other.users is not None and len(np.unique(other.users.value)) == 1


def test_which_records_are_kept_depends_on_ids_and_users_alone() -> None:
    rng = np.random.default_rng(0)
    users, ids = rng.integers(0, 40, 300), rng.permutation(1000)[:300]
    rows = first_records(users, ids, 3)
    assert np.array_equal(np.bincount(users[rows]), np.minimum(np.bincount(users), 3))
    order = rng.permutation(300)
    assert set(ids[rows]) == set(ids[order][first_records(users[order], ids[order], 3)])
    assert set(first_records(users, ids, 2)) < set(rows)
    assert list(first_records(users, ids, 300)) == list(range(300))


@pytest.mark.parametrize("most", [0, -1, 1.5, True, "2"])
def test_a_limit_is_a_positive_integer(most: Any) -> None:
    with pytest.raises(InputError, match="most must be an integer, at least 1"):
        curator_of(2).limited(most)


def test_a_curator_without_users_has_nothing_to_limit() -> None:
    with pytest.raises(InputError, match="without users"):
        curator_of(2, None).limited(1)


# Bad input.


@pytest.mark.parametrize(
    "users",
    [
        [0, 1, None, 2, 1, 0],
        ["a", "b", None, "c", "b", "a"],
        ["a", "b", "", "c", "b", "a"],
        [0.0, 1.0, float("nan"), 2.0, 1.0, 0.0],
        np.ma.masked_array(USERS, mask=[0, 0, 1, 0, 0, 0]),
    ],
)
def test_a_record_without_a_user_is_one_clear_error(users: Any) -> None:
    ledger = ldp.Ledger(ldp.Budget(1))
    with pytest.raises(InputError) as caught:
        Curator([0, 1, 1, 0, 1, 0], domain=ldp.Classes(2), ledger=ledger, users=users)
    assert str(caught.value) == f"users {NO_USER}" and not ledger.charges


@pytest.mark.parametrize(
    "users", [[0, 1], USERS[:, None], USERS + 0.5, [True, False] * 3, "abcdef", 7, [(0,), (1,)] * 3]
)
def test_users_are_one_integer_or_text_for_each_record(users: Any) -> None:
    with pytest.raises(InputError, match="users must be one integer, or one text, for each record: whose it is"):
        curator_of(2, users)


def test_what_protects_single_records_is_refused_before_it_is_charged() -> None:
    curator = curator_of(2)
    for users, words in ((None, "protects single records only"), (USERS[::-1], "the users of the curator")):
        given = None if users is None else Public(users, why="made up")
        mechanism = moment(GaussianMoment, given, ROWS, epsilon=1.0, delta=1e-3)
        with pytest.raises(InputError, match=words):
            curator.release(mechanism, rng=SYSTEM)
    assert not curator.ledger.charges
    with pytest.raises(InputError, match="users must be one non-negative integer for each record"):
        moment(GaussianMoment, Public(USERS[:3], why="made up"), ROWS, epsilon=1.0, delta=1e-3)


def test_no_bytes_are_no_name() -> None:
    names = np.empty(2, dtype=object)
    names[:] = ["Ann", b""]
    with pytest.raises(InputError, match=NO_USER):
        user_names(names, b"k" * 32)


@pytest.mark.parametrize("name", [True, 1.5, ("a", "b")])
def test_names_of_users_are_integers_or_texts(name: Any) -> None:
    names = np.empty(2, dtype=object)
    names[:] = ["Ann", name]
    with pytest.raises(InputError, match=ONE_USER):
        user_names(names, b"k" * 32)


def test_the_digest_of_a_map_is_the_one_that_ledgers_hold() -> None:
    """Another one would refuse every ledger that was charged for users."""
    key = bytes(range(32))
    found = users_digest(np.array([3, 1, 2]), user_names(["b", "a", "b"], key), key)
    assert PUBLIC_USERS == "the users do not depend on the private labels (the user of each record is public)"
    assert found == users_digest(np.array([1, 2, 3]), user_names(["a", "b", "b"], key), key)
    assert found == "e50a0ad79a1cbf4d0ca17d4e9a70ed63-3"
    assert users_digest(["x", "y"], user_names([1, 1], key), key) == "7a50abf2498449653ff04de1566959d6-2"
