"""Records that came later: whose ids they are, who pays for what, and what is refused."""

import json
import os
import random
import sqlite3
from contextlib import closing, suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labeldp as ldp
from curator.ledgers import DOMAIN, SYSTEM, response
from curator.test_ledger_store import run_processes
from labeldp.curator import Curator, DatasetLedger, LedgerFile, cohorts
from labeldp.curator.cohorts import CONDITION, SortedIds, refuse_known
from labeldp.privacy import PendingCharge, RandomnessKind, RecordIds, gather, total_loss

JANUARY, MAY, JUNE = np.arange(100), np.arange(100, 160), np.arange(160, 200)
BOTH, ALL = np.arange(160), np.arange(200)


def labels_of(ids: Any) -> np.ndarray:
    """The label of a record, whatever else is in the file."""
    return np.array([int(each) * 7 % 5 % 3 for each in ids])


def bought(path: Path, cohort: str | None = None, **more: Any) -> DatasetLedger:
    return LedgerFile(path).dataset("bought", cohort=cohort, **more)


def holder(path: Path, ids: Any, cohort: str | None = None, labels: Any = None, **more: Any) -> Curator:
    """A curator of some records, as a new process would make it."""
    known = labels_of(ids) if labels is None else labels
    return Curator(known, domain=DOMAIN, ledger=bought(path, cohort, **more), ids=ids)


def release(path: Path, ids: Any, epsilon: Any, cohort: str | None = None, **more: Any) -> ldp.Release[Any]:
    """Under the ledger's own noise."""
    one = holder(path, ids, cohort, **more)
    return one.release(response(epsilon), rng=one.ledger.randomness)


def spent(path: Path) -> list[float]:
    """What each cohort spent."""
    return [bought(path).read().spent_of(each.name).epsilon() for each in bought(path).read().cohorts]


def add(path: Path, name: str, ids: Any) -> None:
    LedgerFile(path).add_cohort("bought", name, ids)


@pytest.fixture
def shop(path: Path) -> Path:
    """A dataset with a budget of 3."""
    LedgerFile(path).add("bought", ldp.Budget(epsilon=3))
    return path


@pytest.fixture
def grown(shop: Path) -> Path:
    """It was released once before anybody thought of more records, and then got some twice."""
    release(shop, JANUARY, 1)
    add(shop, "january", JANUARY)
    add(shop, "may", MAY)
    return shop


def test_a_record_pays_for_its_cohort_and_for_all_records_since_it_came(grown: Path) -> None:
    """The total is the largest sum over cohorts."""
    assert spent(grown) == [1, 0]
    release(grown, MAY, 1, "may")
    assert spent(grown) == [1, 1] and bought(grown).spent.epsilon() == 1
    release(grown, BOTH, 0.5)
    assert spent(grown) == [1.5, 1.5]
    add(grown, "june", JUNE)
    assert spent(grown) == [1.5, 1.5, 0]
    release(grown, ALL, 0.25)
    release(grown, MAY, 0.125, "may")
    release(grown, JANUARY, 0.0625)  # all records, as they were before May
    release(grown, BOTH, 0.03125)  # and before June
    assert spent(grown) == [1.84375, 1.90625, 0.25]
    assert bought(grown).spent.epsilon() == 1.90625
    covered = [each.cohorts for each in bought(grown).read().entries]
    both, everybody = ("january", "may"), ("january", "may", "june")
    assert covered == [("january",), ("may",), both, everybody, ("may",), ("january",), both]


def test_the_budget_holds_for_the_record_that_pays_most(grown: Path) -> None:
    release(grown, MAY, 2.5, "may")
    for ids, cohort in ((MAY, "may"), (BOTH, None)):
        with pytest.raises(ldp.BudgetExceeded, match=r"epsilon = 2\.5 of .* bring it to 3\.1"):
            release(grown, ids, 0.6, cohort)
    release(grown, JANUARY, 2, "january")
    release(grown, MAY, 0.5, "may")
    assert spent(grown) == [3, 3]
    add(grown, "june", JUNE)
    with pytest.raises(ldp.BudgetExceeded):
        release(grown, ALL, 0.001)
    release(grown, JUNE, 3, "june")


def test_what_was_released_before_a_dataset_grew_is_found_with_the_same_bits(shop: Path) -> None:
    """A dataset's first cohort is what it always was: under its name, without one, and after others came."""
    first = release(shop, JANUARY, 1)
    held = holder(shop, JANUARY).release(response(0.5), rng=SYSTEM)
    for step in (
        lambda: add(shop, "january", JANUARY),
        lambda: add(shop, "may", MAY),
        lambda: release(shop, BOTH, 0.25),
    ):
        step()
        for cohort in (None, "january"):
            again = release(shop, JANUARY[::-1], 1, cohort)
            assert (again.value[::-1] == first.value).all() and again.certificate == first.certificate
            same = holder(shop, JANUARY, cohort).release(response(0.5), rng=SYSTEM)
            assert (same.value == held.value).all() and same.certificate == held.certificate
    assert spent(shop) == [1.75, 0.25]


@pytest.mark.parametrize("cohort", [None, "january"])
def test_a_plan_of_a_part_goes_on_after_the_dataset_got_cohorts(shop: Path, cohort: str | None) -> None:
    """Its steps have no cohort, and a charge with one would be no step of it: nobody could read the ledger again."""
    parity = ldp.Public(JANUARY % 2, why="parity of the id")
    even = holder(shop, JANUARY).split(parity)[0]
    even.require({str(epsilon): response(epsilon) for epsilon in (0.5, 0.25)})
    first = even.release(response(0.5), rng=SYSTEM)
    add(shop, "january", JANUARY)
    add(shop, "may", MAY)
    second = holder(shop, JANUARY, cohort).split(parity)[0].release(response(0.25), rng=SYSTEM)
    stored = [entry.certificate for entry in bought(shop).read().entries]
    assert stored == [first.certificate, second.certificate]
    assert second.certificate.epsilon() == gather([first, second], lambda *_: None).certificate.epsilon() == 0.75
    assert spent(shop) == [0.75, 0]


def test_a_plan_of_a_cohort_counts_for_its_records_alone(grown: Path) -> None:
    """The largest is the whole plan of May: the smaller release of January is about other records."""
    may = holder(grown, MAY, "may")
    may.require({str(epsilon): response(epsilon) for epsilon in (0.5, 0.25)})
    may.release(response(0.5), rng=SYSTEM)
    holder(grown, JANUARY, "january").release(response(0.25), rng=SYSTEM)
    plan, other = [entry.certificate for entry in bought(grown).read().entries][-2:]
    assert gather([ldp.Release(None, plan), ldp.Release(None, other)], lambda *_: None).certificate.epsilon() == 0.75


def test_steps_and_mechanisms_are_found_by_cohort_before_a_run(grown: Path) -> None:
    """What January released is free for January, and for nobody else."""
    LedgerFile(grown).change("bought", budget=ldp.Budget(1))
    asked = PendingCharge(
        response(1).specification(), response(1).privacy_loss(), scheme="ids", randomness=RandomnessKind.KEYED
    )
    little = PendingCharge({}, response("0.1").privacy_loss())
    bought(grown).read().afford(asked)  # nobody knows yet whose labels
    for ids, cohort in ((JANUARY, None), (JANUARY, "january"), (MAY, "may")):
        holder(grown, ids, cohort).ledger.read().afford(asked)
        holder(grown, ids, cohort).require({"step": response(1)})
    for refuse in (
        lambda: holder(grown, BOTH).ledger.read().afford(asked),
        lambda: holder(grown, BOTH).require({"step": response(1)}),
        lambda: holder(grown, JANUARY, "january").require({"step": response(1), "another": response(1)}),
        lambda: bought(grown, "january").read().afford(little),
    ):
        with pytest.raises(ldp.BudgetExceeded):
            refuse()
    bought(grown, "may").read().afford(little)
    own = [len(holder(grown, *which).ledger.read().own_entries) for which in ((JANUARY,), (MAY, "may"), (BOTH,))]
    assert own == [1, 0, 0]


OVERLAPS: dict[str, Any] = {
    "the same integer": [150, 7],
    "as a text": ["150", "7"],
    "as bytes": [b"7", b"900"],
    "unsigned": np.array([300, 7], dtype=np.uint64),
    "small integers": np.array([7, 101], dtype=np.int8),
    "texts of numpy": np.array(["abc", "7"]),
    "blocks": iter([np.array([800, 801]), ["802", "7"]]),
    "objects": np.array(["new", 7], dtype=object),
    "all of them": JANUARY[::-1],
    "one of May": np.concatenate([np.arange(1000, 2000), [159]]),
}


@pytest.mark.guarantee("labeldp.curator:LedgerFile.add_cohort", "disjoint")
@pytest.mark.parametrize("kind", OVERLAPS)
def test_an_id_of_another_cohort_is_refused_in_whatever_form(grown: Path, kind: str) -> None:
    before = grown.read_bytes()
    with pytest.raises(ldp.privacy.LedgerError, match=r"nothing was added"):
        add(grown, "june", OVERLAPS[kind])
    assert grown.read_bytes() == before


def test_texts_that_no_integer_prints_as_are_ids_of_their_own(grown: Path) -> None:
    add(grown, "june", ["07", "7 ", "-0", "user 7", str(2**64)])
    with pytest.raises(ldp.privacy.LedgerError, match="in the cohort 'june'"):
        add(grown, "july", ["user 7", "user 8"])


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        ([200, 201, 200], "ids must be distinct"),
        (["200", 200], "ids must be distinct"),
        ([], "ids must hold at least one record id"),
        (np.arange(4).reshape(2, 2), "ids must be one integer, or one text"),
        (7, "ids must be one integer, or one text"),
    ],
)
def test_ids_that_are_none_are_refused(grown: Path, ids: Any, sentence: str) -> None:
    before = grown.read_bytes()
    with pytest.raises(ldp.privacy.InputError, match=sentence):
        add(grown, "june", ids)
    assert grown.read_bytes() == before


@pytest.mark.parametrize("name", ["", " ", "a\nb", 7, None])
def test_a_name_of_a_cohort_is_a_printable_text(grown: Path, name: Any) -> None:
    with pytest.raises(ldp.privacy.InputError, match="cohort must be a printable text"):
        add(grown, name, JUNE)


def test_a_typing_error_finds_no_cohort(grown: Path) -> None:
    for name, sentence in (("Mai", "did you mean 'may'"), ("x", "it has 'january', 'may'.")):
        with pytest.raises(ldp.privacy.LedgerError, match=sentence):
            bought(grown, name)
    for make in (
        lambda: LedgerFile(grown).dataset("buoght", cohort="may"),
        lambda: LedgerFile(grown).add_cohort("buoght", "may", JUNE),
    ):
        with pytest.raises(ldp.privacy.LedgerError, match="did you mean 'bought'"):
            make()
    with pytest.raises(ldp.privacy.LedgerError, match="it has none"):
        LedgerFile(grown.with_name("new.db")).dataset("bought", cohort="may", budget=ldp.Budget(1))
    assert not grown.with_name("new.db").exists()


def test_other_records_than_those_of_the_cohort_are_refused_before_a_label_is_looked_at(grown: Path) -> None:
    """Ids are public: the refusal depends on them alone, and is no difference of labels."""
    words: dict[str, set[str]] = {}
    outside = [9] * 200  # no label of the domain: if one was looked at, the refusal would be another
    for ids, cohort in ((MAY[1:], "may"), (JANUARY, "may"), (BOTH, "may"), (MAY, None), (ALL, None), (JUNE, None)):
        for labels in (None, outside[: len(ids)]):
            with pytest.raises(ldp.privacy.LedgerError, match="nothing was charged") as told:
                holder(grown, ids, cohort, labels)
            words.setdefault(f"{len(ids)} {cohort}", set()).add(str(told.value))
    assert all(len(each) == 1 for each in words.values())
    assert all("ledger add" in each and "--cohort NAME --ids FILE" in each for [each] in words.values())
    [domain] = bought(grown).read().domains
    assert (domain.passed, domain.refused, bought(grown).read().differences) == (1, 0, 0)
    assert spent(grown) == [1, 0]


def test_records_that_came_later_are_sent_to_a_cohort(shop: Path) -> None:
    """Under the same name they were refused as changed labels, and the revision that was suggested doubled epsilon."""
    release(shop, JANUARY, 1)
    for ids in (MAY, BOTH, JANUARY[1:]):
        with pytest.raises(ldp.privacy.LedgerError, match=r"not the records .* cohort, .* --cohort NAME .*--revision"):
            holder(shop, ids)
    assert bought(shop).read().differences == 0
    with pytest.raises(ldp.privacy.LedgerError, match="--cohort NAME --ids FILE --id COLUMN"):
        bought(shop, "may")
    with pytest.raises(
        ldp.privacy.LedgerError, match=r"its first cohort is all of them; nothing was added. Add those first"
    ):
        add(shop, "may", MAY)
    add(shop, "january", [str(each) for each in JANUARY[::-1]])
    add(shop, "may", MAY)
    release(shop, MAY, 1, "may")
    assert bought(shop).spent.epsilon() == 1
    again = holder(shop, JANUARY, labels=labels_of(JANUARY) * 0)
    with pytest.raises(ldp.privacy.LedgerError, match="not the labels"):  # changed labels of known records: as ever
        again.release(response(), rng=SYSTEM)
    assert bought(shop).read().differences == 1


def test_a_dataset_that_was_released_without_ids_takes_no_cohorts(shop: Path) -> None:
    no_ids = Curator(labels_of(JANUARY), domain=DOMAIN, ledger=bought(shop))
    no_ids.release(response(1), rng=SYSTEM)
    with pytest.raises(
        ldp.privacy.LedgerError, match="takes no cohorts: some of its releases were made without record ids"
    ):
        add(shop, "january", JANUARY)
    release(shop, JANUARY, 1, other_ids=True)  # the same labels with ids: that does not say whose the others were
    with pytest.raises(ldp.privacy.LedgerError, match="takes no cohorts"):
        add(shop, "january", JANUARY)


def test_a_dataset_with_cohorts_takes_no_release_without_ids(grown: Path) -> None:
    for cohort, count in ((None, 160), ("may", 60)):
        with pytest.raises(ldp.privacy.LedgerError, match="told apart by record ids: give them"):
            Curator(np.zeros(count, int), domain=DOMAIN, ledger=bought(grown, cohort))
    with pytest.raises(ldp.privacy.LedgerError, match="this would protect the losses of one round only"):
        ldp.online.PrivateExperts(d=3, horizon=20, epsilon=1, ledger=bought(grown))
    assert spent(grown) == [1, 0]


def test_a_ledger_that_was_not_told_the_records_takes_no_cohorts(shop: Path) -> None:
    """Whoever charges a request without saying whose labels it is about leaves that open for ever."""
    account = bought(shop)
    request = holder(shop, JANUARY)._request(response(1), SYSTEM, None)
    with account.charging(request, response(1)) as draw:
        draw.value = labels_of(JANUARY)
    with pytest.raises(ldp.privacy.LedgerError, match="takes no cohorts"):
        add(shop, "january", JANUARY)


def test_revisions_are_of_the_records_of_cohorts(grown: Path) -> None:
    corrected = labels_of(BOTH)
    corrected[3] = (corrected[3] + 1) % 3
    release(grown, BOTH, 0.5, labels=corrected, revision="corrected")
    release(grown, MAY, 0.25, "may", labels=corrected[100:], revision="corrected")
    assert spent(grown) == [1.5, 0.75]
    with pytest.raises(ldp.privacy.LedgerError, match="neither all records"):
        release(grown, BOTH[1:], 0.5, labels=corrected[1:], revision="without one")


def test_revisions_of_other_records_take_no_cohorts(shop: Path) -> None:
    """A record of May that a revision released before would have paid already, and its cohort would not know."""
    release(shop, JANUARY, 1)
    release(shop, BOTH, 1, revision="with May")
    for ids in (JANUARY, BOTH):
        with pytest.raises(ldp.privacy.LedgerError, match="takes no cohorts: its revisions were of different records"):
            add(shop, "january", ids)


def test_labels_are_the_same_alone_and_together(grown: Path) -> None:
    """Labels that changed are refused, also where others tell: those of cohorts add up to those of all."""
    changed = labels_of(BOTH)
    changed[120] = (changed[120] + 1) % 3
    release(grown, MAY, 0.5, "may")
    with pytest.raises(ldp.privacy.LedgerError, match="not the labels"):
        release(grown, BOTH, 0.5, labels=changed)
    assert bought(grown).read().differences == 1
    add(grown, "june", JUNE)
    release(grown, ALL, 0.5)
    with pytest.raises(ldp.privacy.LedgerError, match="not the labels"):
        release(grown, JUNE, 0.5, "june", labels=(labels_of(JUNE) + 1) % 3)
    release(grown, JUNE, 0.5, "june")
    assert bought(grown).read().differences == 2 and spent(grown) == [1.5, 1, 1]


def test_noise_of_a_cohort_is_its_own(grown: Path) -> None:
    """The same mechanism and labels in another cohort or dataset: other noise, also for the same ids."""
    everybody = np.zeros(4000, int)
    ledger = LedgerFile(grown)
    values = {}
    for name, cohort, first in (("one", "a", 0), ("two", "a", 0), ("one", "b", 4000), ("one", "c", 8000)):
        if name not in ledger.datasets():
            ledger.add(name, ldp.Budget(9))
        ids = np.arange(first, first + 4000)
        ledger.add_cohort(name, cohort, ids)
        account = ledger.dataset(name, cohort=cohort)
        one = Curator(everybody, domain=DOMAIN, ledger=account, ids=ids)
        values[name, cohort] = one.release(response(1), rng=account.randomness).value
    for one in values:
        for other in values:
            agree = float(np.mean((values[one] == 0) == (values[other] == 0)))
            keep = response(1).keep_probability
            assert agree == 1 if one == other else abs(agree - keep**2 - (1 - keep) ** 2) < 0.06
    identities = [bought(grown, cohort).randomness.identity for cohort in (None, "january", "may")]
    assert identities[0] == identities[1] != identities[2]


def test_a_certificate_says_which_cohorts_and_on_which_condition(grown: Path) -> None:
    early, may, both = (
        bought(grown).read().entries[0].certificate,
        release(grown, MAY, 1, "may"),
        release(grown, BOTH, 0.5),
    )
    assert early.cohorts == () and CONDITION not in early.assumptions
    assert may.certificate.cohorts == ("may",) and CONDITION in may.certificate.assumptions
    assert "one label of cohort 'may' of dataset 'bought'" in may.certificate.at()
    assert f"Conditions: 1. {CONDITION}" in may.certificate.at()
    assert "of cohorts 'january' and 'may' of dataset 'bought'" in both.certificate.at()
    for each in (early, may.certificate, both.certificate):
        assert ldp.Certificate.from_json(json.loads(json.dumps(each.to_json()))) == each
    assert "cohorts" not in early.to_json()
    assert total_loss(bought(grown).charges).epsilon() >= bought(grown).spent.epsilon()


def test_models_of_two_cohorts_are_certified_for_the_larger_cost(shop: Path) -> None:
    """Where all releases say of which cohort they are; one from before there were cohorts counts as one of all."""
    release(shop, JANUARY, 1)
    add(shop, "january", JANUARY)
    add(shop, "may", MAY)
    before, january = release(shop, JANUARY, 1), release(shop, JANUARY, 0.75)
    may = release(shop, MAY, 0.5, "may")
    joined = gather([january, may], lambda *values: values).certificate
    assert joined.epsilon() == 0.75 and joined.cohorts == ("january", "may")
    joined = gather([before, may], lambda *values: values).certificate
    assert joined.epsilon() == 1.5 and joined.cohorts == ()
    both = release(shop, BOTH, 0.25)
    assert gather([january, may, both], lambda *values: values).certificate.epsilon() == 1


def test_parts_of_a_cohort_are_charged_in_parallel(grown: Path) -> None:
    halves = ldp.Public(np.arange(60) % 2, why="by row number")
    for part in holder(grown, MAY, "may").split(halves):
        part.release(response(1), rng=SYSTEM)
    assert spent(grown) == [1, 1]
    assert [len(each.part) for each in bought(grown).read().entries] == [0, 1, 1]


def test_adding_a_cohort_again_changes_nothing(grown: Path) -> None:
    before = grown.read_bytes()
    add(grown, "may", [str(each) for each in MAY[::-1]])
    assert grown.read_bytes() == before
    with pytest.raises(ldp.privacy.LedgerError, match="these are the records of the cohort 'may'"):
        add(grown, "june", MAY)


def test_a_cohort_that_nothing_was_released_of_may_be_replaced(grown: Path) -> None:
    """A wrong file is no misfortune, as long as nobody paid for it."""
    add(grown, "may", np.arange(500, 600))
    add(grown, "june", MAY)
    add(grown, "may", np.arange(500, 550))
    assert [each.records for each in bought(grown).read().cohorts] == [100, 50, 60]
    release(grown, np.concatenate([JANUARY, np.arange(500, 550), MAY]), 0.5)
    for name in ("january", "may", "june"):
        with pytest.raises(ldp.privacy.LedgerError, match="has other records, and was released"):
            add(grown, name, JUNE)


def test_k_cohorts_and_k_releases_of_all_cost_each_what_it_was_there_for(shop: Path) -> None:
    """The earliest records pay all k, the last ones one; the ledger keeps one row for each release, not k * k."""
    LedgerFile(shop).change("bought", budget=ldp.Budget(100))
    many = 20
    for number in range(many):
        add(shop, f"cohort {number}", np.arange(10 * number, 10 * number + 10))
        release(shop, np.arange(10 * number + 10), 1)
    assert spent(shop) == [many - number for number in range(many)]
    assert bought(shop).spent.epsilon() == many
    with closing(sqlite3.connect(shop)) as connection:
        [(rows,)] = connection.execute("SELECT count(*) FROM paid").fetchall()
    assert rows == many
    different = [release(shop, np.arange(10), Fraction(1, number + 2), "cohort 0") for number in range(5)]
    assert "(20 in all)" in release(shop, np.arange(10 * many), 0.5).certificate.at()
    assert all(each.certificate.cohorts == ("cohort 0",) for each in different)


def test_cohorts_that_were_named_from_the_beginning(shop: Path) -> None:
    add(shop, "january", JANUARY)
    with pytest.raises(ldp.privacy.LedgerError, match="neither all records"):
        release(shop, BOTH, 1)
    first = release(shop, JANUARY, 1)
    assert first.certificate.cohorts == ("january",) and CONDITION not in first.certificate.assumptions
    assert (release(shop, JANUARY, 1, "january").value == first.value).all() and spent(shop) == [1]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sets(st.integers(-50, 400) | st.sampled_from(["a", "07", "b"]), min_size=1, max_size=60), max_size=6),
    st.integers(1, 50),
)
def test_sorted_digests_tell_what_sets_tell(tables: list[set[Any]], held: int) -> None:
    """The comparison is exact, however many ids memory holds."""
    known: set[str] = set()
    key, connection = b"k" * 32, sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE cohort_ids (dataset, bucket, number, ids)")
    for number, ids in enumerate(tables):
        texts = [str(each) for each in ids]
        with closing(SortedIds(key, key, held=held)) as found:
            for each in texts:
                found.add([each])
            assert found.records == len(texts)
            apart = True
            try:
                before = [cohorts.Cohort(one, str(one), 1, "", "") for one in range(number)]
                refuse_known(connection, 1, "people", before, found)
            except ldp.privacy.LedgerError:
                apart = False
            assert apart is known.isdisjoint(texts)
            rows = ((bucket, number, found.bucket(bucket).tobytes()) for bucket in range(256))
            connection.executemany("INSERT INTO cohort_ids VALUES (1, ?, ?, ?)", rows)
        known.update(texts)
    connection.close()


def test_ids_with_equal_halves_of_a_digest_are_told_apart() -> None:
    """Rows are compared whole, also where first words are equal."""
    one = np.array([[5, 1], [5, 3], [7, 0]], dtype="<u8")
    for other, shared in (([[5, 2]], False), ([[5, 3]], True), ([[4, 1], [5, 4], [8, 0]], False), ([[7, 0]], True)):
        assert cohorts.share_rows(one, np.array(other, dtype="<u8")) is shared
        assert cohorts.share_rows(np.array(other, dtype="<u8"), one) is shared
    assert not cohorts.share_rows(one[:0], one) and not cohorts.share_rows(one, one[:0])


def test_the_ledger_holds_no_id_in_the_clear(shop: Path) -> None:
    add(shop, "people", [f"Ms. Unlikely Name {number}" for number in range(50)])
    add(shop, "numbers", [0x0123456789ABCDEF])
    content = shop.read_bytes()
    assert b"Unlikely" not in content and (0x0123456789ABCDEF).to_bytes(8, "little") not in content
    assert "digest" not in repr(bought(shop).read().cohorts) and repr(SortedIds(b"k" * 32, b"k" * 32)) == "SortedIds(0)"


class Killed(BaseException):
    """Stands for a process that ends in the middle of a transaction."""


def killed(*_: Any, **__: Any) -> Any:
    raise Killed


def test_random_histories_of_a_file_charge_every_record_what_it_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cohorts, releases of one and of all, parts, revisions, refusals, and processes that end before a draw is done."""
    draw = ldp.RandomizedResponse.randomize
    for seed in range(15):
        chance, path = random.Random(seed), tmp_path / f"{seed}.db"
        LedgerFile(path).add("bought", ldp.Budget(2))
        edges, names, paid = [0], [], np.zeros(0)
        for step in range(chance.randrange(4, 16)):
            if len(edges) == 1 or chance.random() < 0.25:
                edges.append(edges[-1] + chance.randrange(3, 9))
                names.append(f"cohort {step}")
                add(path, names[-1], np.arange(edges[-2], edges[-1]))
                paid = np.append(paid, np.zeros(edges[-1] - edges[-2]))
                continue
            last = chance.randrange(len(names))
            alone = chance.random() < 0.5
            ids = np.arange(edges[last] if alone else 0, edges[last + 1])
            one = holder(path, ids, names[last] if alone else None, revision=chance.choice([None, None, "r"]))
            rows = np.arange(len(ids))
            if chance.random() < 0.3:
                one, rows = one.split(ldp.Public(rows % 2, why="by row number"))[1], rows[1::2]
            epsilon = chance.choice([0.125, 0.25, 0.5]) + step / 1024
            if chance.random() < 0.2:
                monkeypatch.setattr(ldp.RandomizedResponse, "randomize", killed)
            with suppress(Killed, ldp.BudgetExceeded):
                one.release(response(epsilon), rng=chance.choice([SYSTEM, one.ledger.randomness]))
                paid[ids[rows]] += epsilon
            monkeypatch.setattr(ldp.RandomizedResponse, "randomize", draw)
        account = bought(path)
        charged = [account.read().spent_of(name) for name in names]
        for name, loss in zip(names, charged, strict=True):
            own = [each.certificate.entries[0] for each in account.read().entries if name in each.cohorts]
            assert loss.epsilon() == total_loss(own).epsilon()
        least = [paid[low:high].max() for low, high in pairwise(edges)]
        exact = not any(each.part for each in account.read().entries)  # parts of different splits are charged as one
        assert all(loss.epsilon() >= one for loss, one in zip(charged, least, strict=True))
        assert not exact or [loss.epsilon() for loss in charged] == least
        assert account.spent.epsilon() == max(loss.epsilon() for loss in charged) <= 2


def test_forks_that_add_cohorts_never_share_a_record(shop: Path) -> None:
    """Two processes with the same open ledger: whoever comes second is refused, whatever was compared before."""
    ledger, (reading, writing) = LedgerFile(shop), os.pipe()
    ledger.add_cohort("bought", "january", JANUARY)
    child = os.fork()
    if child == 0:
        said = b"-"
        with suppress(ldp.privacy.LedgerError):
            ledger.add_cohort("bought", "child", np.arange(150, 5000))
            said = b"+"
        os.write(writing, said)
        os._exit(0)
    said = b"-"
    with suppress(ldp.privacy.LedgerError):
        ledger.add_cohort("bought", "parent", np.arange(100, 151))
        said = b"+"
    assert os.waitpid(child, 0)[1] == 0
    assert {said, os.read(reading, 1)} == {b"+", b"-"}
    assert len(bought(shop).read().cohorts) == 2


def test_what_came_in_between_is_compared_in_the_transaction(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process adds the same ids after this one has compared, and before it writes."""
    add(shop, "january", JANUARY)
    insert = cohorts.insert_cohort

    def later(*arguments: Any) -> None:
        monkeypatch.setattr("labeldp.curator.ledger_file.insert_cohort", insert)
        raise Killed

    monkeypatch.setattr("labeldp.curator.ledger_file.insert_cohort", later)
    with pytest.raises(Killed):
        add(shop, "may", MAY)  # ended between the two
    compared: list[Any] = []
    keep = cohorts.refuse_known

    def meanwhile(*arguments: Any) -> None:
        keep(*arguments)
        if not compared:
            compared.append(True)
            add(shop, "may", MAY)

    monkeypatch.setattr("labeldp.curator.ledger_file.refuse_known", meanwhile)
    with pytest.raises(ldp.privacy.LedgerError, match="in the cohort 'may'"):
        add(shop, "june", [159, 1000])
    assert [each.name for each in bought(shop).read().cohorts] == ["january", "may"]


def test_a_curator_that_was_made_before_a_dataset_grew_charges_its_own_records(shop: Path) -> None:
    release(shop, JANUARY, 1)
    before = holder(shop, JANUARY)
    add(shop, "january", JANUARY)
    add(shop, "may", MAY)
    before.release(response(0.5), rng=SYSTEM)
    unnamed = bought(shop)
    assert spent(shop) == [1.5, 0]
    request = before._request(response(0.25), SYSTEM, None)
    with (
        pytest.raises(ldp.privacy.LedgerError, match="told apart by record ids"),
        unnamed.charging(request, response(0.25)),
    ):
        pytest.fail("nothing may be drawn")


@pytest.mark.slow
@pytest.mark.guarantee("labeldp.curator:LedgerFile.add_cohort", "whole")
def test_killed_while_adding_cohorts_each_is_there_whole_or_not_at_all(shop: Path) -> None:
    found = run_processes("extend", shop)
    assert found[-1]["cohorts"] and len(found) == 8
    known = [(each.name, each.records) for each in bought(shop).read().cohorts]
    assert known == [tuple(each) for each in found[-1]["cohorts"]]
    for number in range(len(known)):
        with pytest.raises(ldp.privacy.LedgerError, match=f"in the cohort 'cohort {number}'"):
            add(shop, "again", [20_000 * number + 19_999])
    with closing(sqlite3.connect(shop)) as connection:
        stored = connection.execute("SELECT number, sum(length(ids)) FROM cohort_ids GROUP BY number").fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert stored == [(number, 16 * 20_000) for number in range(len(known))]


def test_a_full_disk_adds_nothing(tiny_disk: Path) -> None:
    path = tiny_disk / "ledger.db"
    LedgerFile(path).add("bought", ldp.Budget(1))
    with pytest.raises(ldp.privacy.LedgerError, match="disk is full"):
        add(path, "january", np.arange(50_000))
    assert bought(path).read().cohorts == ()
    add(path, "january", JANUARY)


def test_record_ids_of_the_dataset_are_taken_as_they_are(shop: Path) -> None:
    key = bought(shop).ids_key
    add(shop, "january", RecordIds.of([str(each) for each in JANUARY], key))
    release(shop, JANUARY, 1)
    assert spent(shop) == [1]


def test_a_choice_to_extend_that_follows_outputs_passes_delta() -> None:
    """Why certificates name a condition: either plan has (1.9, delta), and choosing by what was released has more.

    Plan A releases everybody by randomized response twice; plan B adds records after the first time, and then shows
    each label with probability delta. The choice follows the first answer: A if it is the likely one in one world.
    """
    share = Fraction(7310585786300049, 10**16)  # of the truth at epsilon = 1
    odds = Fraction(66858944422792685, 10**16)  # e^1.9, from below
    once = {"yes": share, "no": 1 - share}, {"yes": 1 - share, "no": share}
    delta = share**2 - odds * (1 - share) ** 2
    assert round(float(delta), 4) == 0.0509

    def plan_a(world: int) -> dict[str, Fraction]:
        return once[world]

    def plan_b(world: int) -> dict[str, Fraction]:
        return {"nothing": 1 - delta, f"it is {world}": delta}

    def curve(follow: dict[str, Any]) -> Fraction:
        """Delta at epsilon = 1.9 of a first answer and of what follows it."""
        laws: list[dict[tuple[str, str], Fraction]] = [{}, {}]
        for world, law in enumerate(laws):
            for first, one in once[world].items():
                law |= {(first, then): one * two for then, two in follow[first](world).items()}
        zero = Fraction(0)
        return sum((max(zero, one - odds * laws[1].get(output, zero)) for output, one in laws[0].items()), zero)

    assert curve({"yes": plan_a, "no": plan_a}) == curve({"yes": plan_b, "no": plan_b}) == delta
    assert curve({"yes": plan_a, "no": plan_b}) == delta + (1 - share) * delta > Fraction(126, 100) * delta
    pure = ldp.PrivacyLoss.pure(1)
    assert (pure + pure).within("1.9", "0.0509") and (pure + ldp.PrivacyLoss.failure("0.0508")).within("1.9", "0.0509")


def test_the_first_cohort_holds_the_declared_number_of_records(path: Path) -> None:
    LedgerFile(path).add("bought", ldp.Budget(4), records=100)
    with pytest.raises(ldp.privacy.LedgerError, match=r"has 100 records.*this one holds 160, and nothing was added"):
        add(path, "january", BOTH)
    add(path, "january", JANUARY)
    add(path, "may", MAY)
    release(path, BOTH, 1)
    with pytest.raises(
        ldp.privacy.LedgerError, match="has cohorts, and the ids of a cohort say which records it holds"
    ):
        LedgerFile(path).change("bought", records=160)
