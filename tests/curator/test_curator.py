"""The curator charges first, draws then, and says nothing of the labels."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labeldp as ldp
from curator.ledgers import LABELS
from curator.ledgers import SYSTEM as fp_SYSTEM
from labeldp.curator import Curator, Fingerprint, Ledger, LedgerFile
from labeldp.curator import Curator as fp_Curator
from labeldp.curator import LedgerFile as fp_LedgerFile
from labeldp.mechanisms import (
    Classes,
    Domain,
    Interval,
    LabelCodes,
    LaplaceHistogram,
    RandomizedResponse,
    RandomizedResponseWithPrior,
)
from labeldp.privacy import (
    Budget,
    BudgetExceeded,
    DomainError,
    InputError,
    KeyedRandomness,
    Public,
    RandomnessKind,
    SystemRandomness,
    gather,
)
from labeldp.testing import check_release
from releases.files import release

SYSTEM = SystemRandomness()


def curator(labels: Any = (0, 1, 1, 0, 2, 1), epsilon: Any = 2, **more: Any) -> Curator:
    """A curator of three classes with a budget in memory."""
    return Curator(np.array(labels), domain=Classes(3), budget=Budget(epsilon), **more)


def durable(path: Path, labels: Any, *, revision: str | None = None, name: str = "people", **more: Any) -> Curator:
    """A curator of three classes with a ledger file, and so with keyed noise."""
    ledger = LedgerFile(path / name).dataset(name, revision=revision, budget=Budget(1000))
    return Curator(labels, domain=Classes(3), ledger=ledger, **more)


def response(epsilon: Any = 1) -> RandomizedResponse:
    """Randomized response on three classes."""
    return RandomizedResponse(domain=Classes(3), epsilon=epsilon)


def public(values: Any) -> Public[Any]:
    """An array that no label went into."""
    return Public(np.asarray(values), why="by hand")


class Recording(Ledger):
    """Notes the order of charges and draws."""

    @contextmanager
    def charging(self, request: Any, mechanism: Any) -> Iterator[Any]:
        """Asks whether the charge stands when the noise is drawn."""
        self.charged_at_draw: list[int] = []
        with super().charging(request, mechanism) as draw:
            self.charged_at_draw.append(len(self.charges))
            yield draw


@pytest.mark.guarantee("labeldp.curator:Curator", "charged_first")
def test_nothing_is_drawn_before_its_charge_is_committed() -> None:
    ledger = Recording(Budget(1))
    holder = Curator([0, 1, 2], domain=Classes(3), ledger=ledger)
    holder.release(response(), rng=SYSTEM)
    assert ledger.charged_at_draw == [1]
    with pytest.raises(BudgetExceeded):
        holder.release(response("0.001"), rng=SYSTEM)
    assert ledger.charged_at_draw == []
    assert len(ledger.charges) == 1


def test_labels_that_encode_themselves_are_checked_and_copied() -> None:
    codes = np.array([0, 2, 1], dtype=np.uint8)
    holder = Curator(LabelCodes(codes), domain=Classes(3), budget=Budget(1))
    codes[:] = 0
    assert holder._codes.tolist() == [0, 2, 1]
    with pytest.raises(DomainError):
        Curator(LabelCodes(np.array([0, 3])), domain=Classes(3), budget=Budget(1))


BAD_RELEASES = [
    (None, SYSTEM, InputError, "mechanism must be one, such as RandomizedResponse"),
    (RandomizedResponse, SYSTEM, InputError, "mechanism must be one, such as RandomizedResponse"),
    (
        RandomizedResponse(domain=Classes(4), epsilon=1),
        SYSTEM,
        InputError,
        "mechanism must be on the domain of the labels",
    ),
    (response(), None, InputError, "rng must be SystemRandomness"),
    (response(), 0, InputError, "rng must be SystemRandomness"),
    (response(), np.random.RandomState(1), InputError, "rng must be SystemRandomness"),
    (response(3), SYSTEM, BudgetExceeded, "would bring it to 3"),
    (
        RandomizedResponseWithPrior(domain=Classes(3), epsilon=1, prior=public([[1, 0, 0]])),
        SYSTEM,
        InputError,
        "labels must hold 1 records",
    ),
    (
        LaplaceHistogram(domain=Classes(3), epsilon=1, groups=public([0, 1])),
        SYSTEM,
        InputError,
        "labels must hold 2 records",
    ),
]


@pytest.mark.guarantee("labeldp.curator:Curator", "refusal_free")
@pytest.mark.parametrize(("mechanism", "rng", "error", "sentence"), BAD_RELEASES, ids=range(len(BAD_RELEASES)))
def test_a_refusal_charges_nothing(mechanism: Any, rng: Any, error: type, sentence: str) -> None:
    holder = curator()
    with pytest.raises(error, match=sentence):
        holder.release(mechanism, rng=rng)
    assert holder.ledger.charges == ()
    assert holder.ledger.spent.epsilon() == 0


@pytest.mark.parametrize(
    "ids", [["a", "b", "c", "d", "e", "f"], np.arange(6) - 3, [b"1", b"2", b"3", b"4", b"5", b"6"]]
)
@pytest.mark.parametrize("rng", [SYSTEM, "keyed", np.random.default_rng(0)])
def test_ids_of_every_kind_go_with_every_randomness(ids: Any, rng: Any, tmp_path: Path) -> None:
    holder = durable(tmp_path, [0, 1, 1, 0, 2, 1], ids=ids)
    release = holder.release(response(), rng=holder.ledger.randomness if rng == "keyed" else rng)
    assert release.value.shape == (6,)
    check_release(release)


@pytest.mark.parametrize(
    ("more", "error", "sentence"),
    [
        ({"domain": None}, InputError, "domain must be declared"),
        ({"domain": 3}, InputError, "domain must be declared"),
        ({"budget": None}, InputError, "give either a budget or a ledger"),
        ({"ledger": Ledger(Budget(1))}, InputError, "give either a budget or a ledger"),
        ({"budget": 1.0}, InputError, "budget must be a Budget"),
        ({"labels": []}, InputError, "labels must hold at least one record"),
        ({"labels": [[0, 1]]}, InputError, "labels must be one-dimensional"),
        ({"labels": [0, 3]}, DomainError, "labels must lie in the declared domain"),
        ({"labels": [0, None]}, DomainError, "labels must lie in the declared domain"),
        ({"ids": ["a"]}, InputError, "ids must be one integer, or one text, for each record"),
        ({"ids": [[1], [2]]}, InputError, "ids must be one integer, or one text, for each record"),
        ({"ids": ["a", "a"]}, InputError, "ids must be distinct"),
        ({"ids": [b"a", "a"]}, InputError, "ids must be distinct"),
        ({"ids": [7, 7]}, InputError, "ids must be distinct"),
    ],
)
def test_what_cannot_be_curated_is_refused(more: dict[str, Any], error: type, sentence: str) -> None:
    arguments = {"labels": [0, 1], "domain": Classes(3), "budget": Budget(1), **more}
    with pytest.raises(error, match=sentence) as caught:
        Curator(**arguments)
    assert "'a'" not in str(caught.value) and "7" not in str(caught.value)


def test_a_budget_is_spent_to_the_last_digit() -> None:
    holder = curator(epsilon=1)
    for _ in range(10):
        holder.release(response(0.1), rng=SYSTEM)
    assert holder.ledger.spent.epsilon() == 1.0
    with pytest.raises(BudgetExceeded):
        holder.release(response(1e-9), rng=SYSTEM)
    third = curator(epsilon=1)
    for _ in range(3):
        third.release(response(1 / 3), rng=SYSTEM)


@pytest.mark.guarantee("labeldp.curator:Curator", "refusal_free")
def test_what_is_asked_for_together_is_refused_together() -> None:
    """A permission charges nothing, too."""
    holder = curator(epsilon=2)
    left, right = holder.split(public([0, 1, 0, 1, 0, 1]))
    one = response()
    left.release(response(), rng=SYSTEM)
    left.require({"first": one})
    right.require({"first": one, "second": one})
    left.require({})
    with pytest.raises(BudgetExceeded, match="this would bring it to 3"):
        left.require({"first": one, "second": one})
    with pytest.raises(BudgetExceeded, match=r"epsilon = 1 of .* is spent, and this would bring it to 3"):
        holder.require({"first": one, "second": one})
    assert len(holder.ledger.charges) == 1


def test_a_plan_holds_mechanisms_and_no_losses() -> None:
    holder, other = curator(epsilon=0.1), ldp.RandomizedResponse(domain=ldp.Classes(("a", "b")), epsilon=20)
    free = ldp.PrivacyLoss.discrete([0], [1])
    for steps, sentence in (
        ({"first": response(20).privacy_loss()}, "steps must be mechanisms by the names of their steps"),
        ({"first": response(20), "second": free}, "steps must be mechanisms by the names of their steps"),
        ([response(20)], "steps must be mechanisms by the names of their steps"),
        ({"first": other}, "steps must be on the domain of the labels"),
        ({f"{number}": response(1e-9) for number in range(10_001)}, "steps must be at most 10,000"),
    ):
        with pytest.raises(InputError, match=sentence):
            holder.require(steps)
    with pytest.raises(BudgetExceeded):
        holder.release(response(20), rng=SYSTEM, step="first")
    assert holder.ledger.charges == ()


def test_parts_cost_the_worst_and_splits_add_up() -> None:
    holder = curator(epsilon=4)
    left, right = holder.split(public([0, 1, 0, 1, 0, 1]))
    assert (left.records, right.records) == (3, 3)
    left.release(response(1), rng=SYSTEM)
    right.release(response(2), rng=SYSTEM)
    assert holder.ledger.spent.epsilon() == 2.0
    again = holder.split(public([0, 1, 0, 1, 0, 1]))
    again[0].release(response(1), rng=SYSTEM)
    assert holder.ledger.spent.epsilon() == 2.0, "the same split: part 0 has now spent 2, like part 1"
    other = holder.split(public([0, 0, 0, 1, 1, 1]))
    other[0].release(response(1), rng=SYSTEM)
    assert holder.ledger.spent.epsilon() == 3.0, "another split: its parts may hold any of the others' records"
    holder.release(response(1), rng=SYSTEM)
    assert holder.ledger.spent.epsilon() == 4.0
    with pytest.raises(BudgetExceeded):
        left.release(response(0.1), rng=SYSTEM)


def test_parts_of_some_rows_are_no_parts_of_all() -> None:
    """Row numbers and parts were joined without a mark: two splits of other records could share a name."""
    owner = Curator(["yes"] + ["no"] * 5, domain=Classes(("no", "yes")), budget=Budget(2), users=list("YZXXXX"))
    limited, rows = owner.limited(1)
    third = int(rows[2])
    parts, others = owner.split(public([0, 1, *[third] * 4])), limited.split(public([third] * 3))
    mechanism = RandomizedResponse(domain=owner.domain, epsilon=1)
    parts[0].release(mechanism, rng=SystemRandomness())
    others[third].release(mechanism, rng=SystemRandomness())
    assert owner.ledger.spent.epsilon() == 2


def test_splits_of_splits() -> None:
    holder = curator(epsilon=10)
    left, right = holder.split(public([0, 0, 0, 0, 1, 1]))
    inner = left.split(public([0, 1, 0, 1]))
    for part, epsilon in zip(inner, (1, 3), strict=True):
        part.release(response(epsilon), rng=SYSTEM)
    right.release(response(2), rng=SYSTEM)
    assert holder.ledger.spent.epsilon() == 3.0
    left.release(response(1), rng=SYSTEM)
    assert holder.ledger.spent.epsilon() == 4.0
    assert [len(part.path) for part in (holder, left, inner[0])] == [0, 1, 2]


def test_parts_hold_their_own_labels(tmp_path: Path) -> None:
    labels = np.arange(60) % 3
    parts = durable(tmp_path, labels, ids=[f"r{i}" for i in range(60)]).split(public(np.arange(60) // 20))
    for number, part in enumerate(parts):
        released = part.release(response(100), rng=part.ledger.randomness)
        assert released.value.tolist() == labels[20 * number : 20 * number + 20].tolist()
        assert any(
            "does not depend on the private labels (by hand)" in text for text in released.certificate.assumptions
        )


def test_parts_may_be_empty() -> None:
    holder = curator()
    parts = holder.split(public([0, 2, 2, 0, 2, 0]))
    assert [part.records for part in parts] == [3, 0, 3]
    assert parts[1].release(response(), rng=SYSTEM).value.shape == (0,)
    assert parts[1].split(public(np.zeros(0, dtype=int))) == []


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (np.zeros(6, dtype=int), "a split may not depend on private labels"),
        (public([0, 1]), "parts must be one non-negative integer for each record"),
        (public([0, 1, 2, 3, 4, -1]), "parts must be one non-negative integer for each record"),
        (public([0.0] * 6), "parts must be one non-negative integer for each record"),
        (public([[0] * 6]), "parts must be one non-negative integer for each record"),
    ],
)
def test_what_is_no_split_is_refused(parts: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        curator().split(parts)


def test_labels_that_change_later_are_not_released(tmp_path: Path) -> None:
    """Else two outputs under the same keyed noise would reveal the difference."""
    labels = np.zeros(100, dtype=np.uint8)
    holder = durable(tmp_path, labels)
    first = holder.release(response(), rng=holder.ledger.randomness).value
    labels[:] = 2
    assert np.array_equal(holder.release(response(), rng=holder.ledger.randomness).value, first)


@pytest.mark.parametrize("more", [{"revision": "later"}, {"name": "others"}, {}], ids=["state", "column", "labels"])
def test_keyed_noise_of_other_labels_is_other_noise(more: dict[str, str], tmp_path: Path) -> None:
    """Two columns, and two states of one, never share noise, be they equal or not."""
    labels = np.arange(400) % 3
    changed = labels if more else (labels + 1) % 3
    noisy = []
    for place, values, names in ((tmp_path, labels, {}), (tmp_path / "b", changed, more)):
        place.mkdir(exist_ok=True)
        holder = durable(tmp_path if "revision" in more else place, values, **names)
        noisy.append(holder.release(response(), rng=holder.ledger.randomness).value.astype(int) - values)
    same = np.mean((noisy[1] - noisy[0]) % 3 == 0)
    assert same < 0.6, "the same noise would be the same everywhere; independent noise is in 4 of 10 places"


@pytest.mark.parametrize(
    "rng",
    [KeyedRandomness(b"k" * 32), KeyedRandomness(b"k" * 32, b"context"), KeyedRandomness(b"k" * 32).stream()],
    ids=["key", "key and context", "stream"],
)
def test_keyed_noise_of_a_key_of_ones_own_is_refused(rng: Any, tmp_path: Path) -> None:
    """One key on two columns of 4,000 labels gave equal bits where the columns were equal, and thousands of other bits
    where one label differed: the joint epsilon had no bound, and `gather` certified the sum. Two streams of one key
    had nested flips: at epsilon 1 and 2, the truth showed at every record where the two answers differed.
    """
    for holder in (curator(), durable(tmp_path, [0, 1, 1])):
        parts = holder.split(public([0] * holder.records))
        for each in (holder, *parts):
            with pytest.raises(InputError, match=r"rng: keyed noise for a curator is the noise of its ledger file"):
                each.release(response(), rng=rng)
        assert holder.ledger.charges == ()


def test_keyed_noise_of_another_ledger_is_refused(tmp_path: Path) -> None:
    """Else two datasets, or two revisions, would meet one key."""
    holder, other = durable(tmp_path, [0, 1, 1]), durable(tmp_path, [0, 1, 1], name="others")
    later = durable(tmp_path, [0, 1, 1], revision="later")
    for rng in (other.ledger.randomness, later.ledger.randomness, holder.ledger.randomness.bind(b"more")):
        with pytest.raises(InputError, match="is the noise of its ledger file"):
            holder.release(response(), rng=rng)


def test_keyed_noise_follows_the_id(tmp_path: Path) -> None:
    labels, ids = np.arange(300) % 3, np.arange(300) * 11
    order = np.random.default_rng(1).permutation(300)
    holder = durable(tmp_path, labels, ids=ids)
    first = holder.release(response(), rng=holder.ledger.randomness).value
    holder = durable(tmp_path, labels[order], ids=ids[order])
    assert np.array_equal(first[order], holder.release(response(), rng=holder.ledger.randomness).value)


def test_a_simulation_says_so() -> None:
    release = curator().release(response(), rng=np.random.default_rng(0))
    assert release.certificate.randomness is RandomnessKind.SIMULATION
    assert "SIMULATION – seeded noise, no privacy" in release.certificate.at()


def test_two_curators_of_one_ledger_add_up() -> None:
    ledger = Ledger(Budget(3))
    parts = [Curator([0, 1], domain=Classes(3), ledger=ledger).split(public([0, 1])) for _ in range(2)]
    parts[0][0].release(response(), rng=SYSTEM)
    parts[1][1].release(response(), rng=SYSTEM)
    assert ledger.spent.epsilon() == 2.0


def test_gathered_releases_of_two_ledgers_add_up() -> None:
    parts = [curator([0, 1], epsilon=1).split(public([0, 1])) for _ in range(2)]
    releases = [parts[i][i].release(response(), rng=SYSTEM) for i in range(2)]
    assert gather(releases, lambda *values: None).certificate.epsilon() == 2.0


def test_gathered_parts_cost_the_worst() -> None:
    parts = curator().split(public([0, 1, 0, 1, 0, 1]))
    releases = [part.release(response(1 + i), rng=SYSTEM) for i, part in enumerate(parts)]
    joined = gather(releases, lambda *values: np.concatenate(values))
    assert joined.certificate.epsilon() == 2.0
    assert joined.value.shape == (6,)


def test_nothing_that_can_be_printed_holds_a_label() -> None:
    holder = Curator([41.5, 43.25], domain=Interval(0, 100), budget=Budget(1000))
    release = holder.release(ldp.DiscreteLaplace(domain=holder.domain, epsilon=1000), rng=SYSTEM)
    shown = [
        repr(holder),
        repr(release),
        str(release),
        repr(release.map(lambda value: value)),
        repr(release.certificate),
    ]
    shown += [
        repr(holder.ledger),
        repr(holder.ledger.charges),
        str(holder.ledger.spent),
        repr(holder.split(public([0, 1]))),
    ]
    for text in shown:
        assert not any(label in text for label in ("41.", "43.", "array("))


def test_a_refused_label_is_not_named() -> None:
    for labels in (["no", "SENTINEL"], np.array(["no", "SENTINEL"], dtype=object), [1, "SENTINEL"]):
        with pytest.raises(DomainError) as caught:
            Curator(labels, domain=Classes(("no", "yes")), budget=Budget(1))
        assert "SENTINEL" not in str(caught.value)


def test_a_release_is_certified_with_what_its_prior_and_its_groups_cost() -> None:
    holder = curator(np.arange(180) % 3, 20)
    first = holder.release(response(12), rng=np.random.default_rng(0))
    prior = first.map(lambda codes: np.eye(3)[codes])
    second = holder.release(
        RandomizedResponseWithPrior(domain=holder.domain, epsilon=0.1, prior=prior), rng=np.random.default_rng(0)
    )
    assert second.certificate.epsilon() == 12.1
    groups = first.map(lambda codes: codes.astype(int))
    third = holder.release(
        LaplaceHistogram(domain=holder.domain, epsilon=0.2, groups=groups), rng=np.random.default_rng(0)
    )
    assert third.certificate.epsilon() == 12.2
    assert holder.ledger.spent.epsilon() == 12.3


def test_ids_that_change_later_are_not_used(tmp_path: Path) -> None:
    ids = np.arange(100)
    holder = durable(tmp_path, np.arange(100) % 3, ids=ids)
    first = holder.release(response(), rng=holder.ledger.randomness).value
    ids[:] = 7
    assert (holder.release(response(), rng=holder.ledger.randomness).value == first).all()


def test_repeated_ids_are_refused_wherever_noise_is_keyed() -> None:
    for ids in ([7, 7], ["a", "a"], ["a", b"a"]):
        with pytest.raises(InputError, match="distinct"):
            response().randomize([0, 1], rng=KeyedRandomness(b"k" * 32), ids=ids)


KEY = bytes(range(32))

CHANGED = np.where(np.arange(len(LABELS)) == 7, (LABELS + 1) % 3, LABELS)

SWAPPED = LABELS.copy()

SWAPPED[[0, 1]] = SWAPPED[[1, 0]]

TEXTS = ("0", "1", "2")

NAMES = [f"r{row}" for row in range(len(LABELS))]

BACK = np.arange(len(LABELS))[::-1]

FORMS: dict[str, tuple[Domain, Any, Any]] = {
    "texts": (ldp.Classes(TEXTS), np.str_, None),
    "another order": (ldp.Classes((2, 0, 1)), int, None),
    "one class more": (ldp.Classes(4), int, None),
    "integers as ids": (ldp.Classes(3), int, BACK),
    "texts as ids": (ldp.Classes(("2", "1", "0")), np.str_, NAMES),
}


def ask(path: Path, labels: Any, domain: Domain, ids: Any = None) -> None:
    ledger = fp_LedgerFile(path).dataset("people", budget=ldp.Budget(epsilon=9), other_ids=True)
    mechanism: Any = ldp.RandomizedResponse if isinstance(domain, ldp.Classes) else ldp.DiscreteLaplace
    fp_Curator(labels, domain=domain, ledger=ledger, ids=ids).release(
        mechanism(domain=domain, epsilon=1), rng=fp_SYSTEM
    )


def spent(path: Path) -> float:
    return fp_LedgerFile(path).dataset("people").spent.epsilon()


@pytest.mark.parametrize("form", FORMS)
def test_the_same_labels_in_another_form_are_charged_and_others_refused(path: Path, form: str) -> None:
    domain, kind, ids = FORMS[form]
    ask(path, LABELS, ldp.Classes(3))
    fp_LedgerFile(path).change("people", domain=domain)  # changes nothing but where there is one class more
    with pytest.raises(ldp.privacy.LedgerError, match="these are not the labels"):
        ask(path, CHANGED.astype(kind), domain, ids)
    assert spent(path) == 1.0
    ask(path, LABELS.astype(kind), domain, ids)
    assert spent(path) == (1.0 if form == "another order" else 2.0)  # the same domain: found again


@pytest.mark.parametrize("form", ["texts", "another order"])
def test_swapped_labels_are_refused_in_another_form(path: Path, form: str) -> None:
    domain, kind, ids = FORMS[form]
    ask(path, LABELS, ldp.Classes(3))
    with pytest.raises(ldp.privacy.LedgerError, match="nothing was charged"):
        ask(path, SWAPPED.astype(kind), domain, ids)


def test_changed_labels_are_refused_again_under_the_ids_that_were_refused(path: Path) -> None:
    ask(path, LABELS, ldp.Classes(3))
    for _ in range(2):
        with pytest.raises(ldp.privacy.LedgerError, match="nothing was charged"):
            ask(path, CHANGED, ldp.Classes(3), NAMES)
    ask(path, LABELS, ldp.Classes(3), NAMES)


def test_another_number_of_records_is_refused_on_another_grid(path: Path) -> None:
    values = LABELS / 2
    ask(path, values, ldp.Interval(0, 1, grid=5))
    ask(path, values, ldp.Interval(0, 1, grid=3))
    with pytest.raises(ldp.privacy.LedgerError, match="nothing was charged"):
        ask(path, values[:-1], ldp.Interval(0, 1, grid=9))
    with pytest.raises(ldp.privacy.LedgerError, match="nothing was charged"):
        ask(path, CHANGED / 2, ldp.Interval(0, 1, grid=5), NAMES)


def test_a_file_with_a_changed_label_is_refused_under_an_id_column(people: Path) -> None:
    fp_LedgerFile(people / "ledger.db").add("people", ldp.Budget(epsilon=9))
    release(people)
    table = pd.read_csv(people / "people.csv", dtype=str)
    table.loc[0, "bought"] = "no" if table.loc[0, "bought"] == "yes" else "yes"
    table.to_csv(people / "changed.csv", index=False)
    for change in ({"id_column": "id", "other_ids": True}, {"domain": ldp.Classes(("yes", "no"))}):
        with pytest.raises(ldp.privacy.LedgerError, match="--revision NAME"):
            release(people, data=people / "changed.csv", out=people / "two.csv", **change)
    release(people, out=people / "two.csv", id_column="id", other_ids=True)


def test_traces_do_not_depend_on_order_or_blocks_and_need_the_key() -> None:
    def traces(key: bytes, rows: Any, cut: int) -> Any:
        found = Fingerprint(key, ldp.Classes(3))
        for part in (rows[:cut], rows[cut:]):
            found.update(part, LABELS[part])
        return found.traces("integers")

    assert traces(KEY, np.arange(300), 10) == traces(KEY, BACK, 299)  # the second with a block of one record
    ours, theirs = traces(KEY, BACK, 5), traces(bytes(32), BACK, 5)
    assert [a[2] == b[2] for a, b in zip(ours, theirs, strict=True)] == [False, False, True]  # the number of records
    assert repr(Fingerprint(KEY, ldp.Classes(3))) == "Fingerprint(<secret>)"


def test_the_states_of_fingerprints_add_up() -> None:
    whole, parts = Fingerprint(KEY, ldp.Classes(3)), Fingerprint(KEY, ldp.Classes(3))
    whole.update(np.arange(300), LABELS[:300])
    for part in np.array_split(np.arange(300), 7):
        one = Fingerprint(KEY, ldp.Classes(3))
        one.update(part, LABELS[part])
        parts.add_state(*one.state)
    assert parts.traces("integers") == whole.traces("integers") and parts.state == whole.state
