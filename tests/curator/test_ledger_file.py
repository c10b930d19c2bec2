"""The durable ledger: what is found again, what is charged, what is refused."""

import os
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import DOMAIN, LABELS, SYSTEM, curator, people, response, with_prior
from labeldp.curator import Curator, LedgerFile, copy_ledger
from labeldp.curator.datasets import Dataset
from labeldp.privacy import PendingCharge


@pytest.mark.guarantee("labeldp.curator:DatasetLedger", "same_bits")
def test_asking_for_the_same_release_again_returns_the_same_bits_and_costs_nothing(path: Path) -> None:
    first = curator(path).release(response(), rng=SYSTEM)
    again = curator(path).release(response(), rng=SYSTEM)
    assert np.array_equal(first.value, again.value)
    assert first.value.dtype == again.value.dtype
    assert first.certificate == again.certificate
    assert people(path).spent.epsilon() == 1.0


@pytest.mark.guarantee("labeldp.curator:DatasetLedger", "charged")
def test_another_release_is_charged_and_has_other_noise(path: Path) -> None:
    values = [curator(path).release(response(epsilon), rng=SYSTEM).value for epsilon in (1, 2)]
    assert not np.array_equal(*values)
    assert people(path).spent.epsilon() == 3.0
    assert [charge.loss.epsilon() for charge in people(path).charges] == [1.0, 2.0]


def test_a_release_that_the_budget_does_not_allow_is_refused_and_charges_nothing(path: Path) -> None:
    holder = curator(path, budget=1.5)
    holder.release(response(1), rng=SYSTEM)
    with pytest.raises(ldp.BudgetExceeded, match="budget exceeded for 'people'"):
        holder.release(response(0.501), rng=SYSTEM)
    assert people(path).spent.epsilon() == 1.0
    holder.release(response(0.5), rng=SYSTEM)
    assert people(path).spent.epsilon() == 1.5


def test_a_part_of_a_declared_number_of_records_is_refused_and_charges_nothing(path: Path) -> None:
    ledger, whole = LedgerFile(path), len(LABELS)
    ledger.add("people", ldp.Budget(3), records=whole)
    ledger.add("people", ldp.Budget(3), records=whole)  # changes nothing

    def release(records: int, revision: str | None = None, ids: Any = None) -> None:
        account = ledger.dataset("people", revision=revision)
        holder = Curator(LABELS[:records], domain=DOMAIN, ledger=account, ids=ids)
        holder.release(response(1), rng=SYSTEM)

    for revision, ids in ((None, None), ("corrected", None), (None, np.arange(whole - 1))):
        with pytest.raises(
            ldp.privacy.LedgerError, match=rf"has {whole} records, and these are {whole - 1}; nothing was ch"
        ):
            release(whole - 1, revision, ids)
    assert not people(path).charges and not people(path).read().differences
    release(whole)
    with pytest.raises(ldp.privacy.LedgerError, match=f"has {whole} records, and not {whole - 1}"):
        ledger.add("people", ldp.Budget(3), records=whole - 1)
    ledger.change("people", records=whole - 1, why="some left")
    change = people(path).read().changes[-1]
    assert (change.what, change.before, change.after) == ("number of records", str(whole), str(whole - 1))
    release(whole)  # found again
    release(whole - 1, "corrected")
    assert people(path).spent.epsilon() == 2 and people(path).read().count == whole
    assert ledger.dataset("people", revision="another").read().count == whole - 1


def test_a_release_says_how_many_records_there_are(path: Path) -> None:
    holder = curator(path)
    assert holder.ledger.read().count is None
    holder.release(response(1), rng=SYSTEM)
    assert people(path).read().count == len(LABELS)
    with pytest.raises(ldp.privacy.LedgerError, match="records, and not 7"):
        LedgerFile(path).add("people", people(path).budget, records=7)
    for records in (0, -1, 2.0, True):
        with pytest.raises(ldp.privacy.InputError, match="records must be the number of all records"):
            LedgerFile(path).add("people", people(path).budget, records=records)


def test_what_is_asked_for_together_is_counted_without_what_is_found_again(path: Path) -> None:
    one = response(1)
    fit = curator(path, budget=2.5, run="fit")
    fit.release(response(1), rng=SYSTEM, step="stage 1")
    fit.require({"stage 1": one, "stage 2": one})
    for run, steps in (
        ("fit", {"stage 1": one, "stage 2": one, "stage 3": one}),
        ("fit", {"stage 1": response(1.5), "stage 2": one}),
        ("another fit", {"stage 1": one, "stage 2": one}),
        (None, {"stage 1": one, "stage 2": one}),
    ):
        with pytest.raises(ldp.BudgetExceeded, match="would bring it to 3"):
            curator(path, run=run).require(steps)
    with pytest.raises(ldp.BudgetExceeded, match="would bring it to 3"):
        curator(path, run="fit", revision="corrected").require({"stage 1": one, "stage 2": one})
    fit.release(response(1.5), rng=SYSTEM, step="stage 2")
    fit.require({"stage 1": one, "stage 2": response(1.5)})
    assert len(people(path).charges) == 2


@pytest.mark.parametrize(
    "mechanism",
    [
        ldp.UnaryEncoding(domain=DOMAIN, epsilon=1),
        ldp.LaplaceHistogram(domain=DOMAIN, epsilon=1, groups=ldp.Public(LABELS % 2, why="a test")),
        with_prior(0),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_every_kind_of_value_is_found_again(path: Path, mechanism: Any) -> None:
    first, again = (curator(path).release(mechanism, rng=SYSTEM) for _ in range(2))
    assert first.value.dtype == again.value.dtype
    assert np.array_equal(first.value, again.value)
    assert again.mechanism == mechanism


def test_a_stage_is_found_again_with_the_mechanism_of_that_time(path: Path) -> None:
    first = curator(path, run="fit").release(with_prior(1), rng=SYSTEM, step="stage 2")
    again = curator(path, run="fit").release(with_prior(2), rng=SYSTEM, step="stage 2")
    assert again.mechanism == first.mechanism == with_prior(1)
    assert np.array_equal(first.value, again.value)
    assert len(people(path).charges) == 1
    curator(path, run="fit").release(with_prior(2), rng=SYSTEM, step="stage 3")
    curator(path, run="another fit").release(with_prior(2), rng=SYSTEM, step="stage 2")
    assert len(people(path).charges) == 3
    assert [entry.step for entry in people(path).read().entries] == [
        "fit: stage 2",
        "fit: stage 3",
        "another fit: stage 2",
    ]


def test_a_stage_whose_mechanism_cannot_be_rebuilt_is_charged_anew(path: Path) -> None:
    tops = [
        ldp.mechanisms.RandomizedResponseTopK(
            domain=DOMAIN, epsilon=1, prior=ldp.Public(np.roll([0.5, 0.3, 0.2], i), why="."), k=2
        )
        for i in range(2)
    ]
    values = [curator(path, run="fit").release(top, rng=SYSTEM, step="stage 1") for top in tops]
    assert [release.mechanism for release in values] == tops
    assert len(people(path).charges) == 2


class FailingMechanismError(Exception):
    """What a test's draw ends with."""


@pytest.mark.parametrize("error", [FailingMechanismError, KeyboardInterrupt, MemoryError])
def test_a_draw_that_fails_charges_nothing_and_leaves_nothing(path: Path, error: type[BaseException]) -> None:
    holder = curator(path)
    holder.release(response(1), rng=SYSTEM)
    request = holder._request(response(2), SYSTEM, None)
    with pytest.raises(error), people(path).charging(request, response(2)) as draw:
        assert draw.is_new
        raise error
    assert people(path).spent.epsilon() == 1.0
    assert os.listdir(path.parent) == ["ledger.db"]


@pytest.mark.guarantee("labeldp.curator:DatasetLedger", "labels_compared")
def test_labels_that_changed_are_refused_until_a_revision_says_so(path: Path) -> None:
    holder = curator(path)
    first = holder.release(response(), rng=holder.ledger.randomness).value
    changed = LABELS.copy()
    changed[7] = (changed[7] + 1) % 3
    for labels in (changed, np.append(LABELS, 0), LABELS[:-1]):
        with pytest.raises(ldp.privacy.LedgerError, match="--revision NAME"):
            curator(path, labels).release(response(), rng=SYSTEM)
    assert people(path).spent.epsilon() == 1.0
    revised = curator(path, changed, revision="corrected")
    second = revised.release(response(), rng=revised.ledger.randomness).value
    assert (first != second).mean() > 0.3  # other noise, not one other label
    assert people(path).spent.epsilon() == 2.0
    with pytest.raises(ldp.privacy.LedgerError, match="revision 'corrected' of 'people'"):
        curator(path, revision="corrected").release(response(), rng=SYSTEM)
    assert np.array_equal(curator(path).release(response(), rng=holder.ledger.randomness).value, first)


def test_labels_are_compared_with_those_of_before_without_a_charge(path: Path) -> None:
    """The refusal is on record; nothing is remembered of labels of which nothing was released."""
    changed = LABELS.copy()
    changed[7] = (changed[7] + 1) % 3
    for labels in (changed, LABELS):
        curator(path, labels).check_labels()
    curator(path).release(response(), rng=SYSTEM)
    curator(path).check_labels()
    curator(path, changed, revision="corrected").check_labels()
    assert people(path).read().differences == 0
    with pytest.raises(ldp.privacy.LedgerError, match="--revision NAME"):
        curator(path, changed).check_labels()
    assert people(path).read().differences == 1 and people(path).spent.epsilon() == 1.0
    ldp.Curator(changed, domain=DOMAIN, budget=ldp.Budget(1)).check_labels()  # a ledger in memory keeps no digest


def test_labels_that_changed_are_refused_through_a_part_that_did_not(path: Path) -> None:
    parts = ldp.Public(np.arange(300) % 2, why="a test")
    curator(path).split(parts)[0].release(response(), rng=SYSTEM)
    changed = LABELS.copy()
    changed[1] = 0
    with pytest.raises(ldp.privacy.LedgerError, match="these are not the labels"):
        curator(path, changed).split(parts)[0].release(response(), rng=SYSTEM)


@pytest.mark.parametrize(
    "ids", [np.arange(300) * 7 % 307, np.array([f"id {i}" for i in range(300)])], ids=["integers", "texts"]
)
def test_records_with_ids_are_found_again_in_any_order_of_the_rows(path: Path, ids: Any) -> None:
    order, parts = np.random.default_rng(0).permutation(300), np.arange(300) % 2
    mechanism = ldp.UnaryEncoding(domain=DOMAIN, epsilon=1)
    one = curator(path, ids=ids)
    first = one.release(mechanism, rng=SYSTEM)
    two = curator(path, LABELS[order], ids=ids[order])
    again = two.release(mechanism, rng=SYSTEM)
    assert first.certificate == again.certificate
    assert np.array_equal(first.value[order], again.value)
    halves = [one.split(ldp.Public(parts, why="."))[1], two.split(ldp.Public(parts[order], why="."))[1]]
    values = [half.release(mechanism, rng=SYSTEM).value for half in halves]
    rows = [np.flatnonzero(numbers == 1) for numbers in (parts, parts[order])]
    assert dict(zip(ids[rows[0]], values[0].tolist(), strict=True)) == (
        dict(zip(ids[order][rows[1]], values[1].tolist(), strict=True))
    )
    assert people(path).spent.epsilon() == 2.0


def test_a_stage_is_found_again_in_another_order_of_the_rows_with_its_candidate_sets_in_that_order(path: Path) -> None:
    order, ids = np.random.default_rng(0).permutation(300), np.arange(300)
    first = curator(path, ids=ids, run="fit").release(with_prior(1), rng=SYSTEM, step="two")
    again = curator(path, LABELS[order], ids=ids[order], run="fit").release(with_prior(2), rng=SYSTEM, step="two")
    assert np.array_equal(first.value[order], again.value)
    assert np.array_equal(first.mechanism.membership()[order], again.mechanism.membership())


def test_a_count_of_groups_is_not_taken_for_rows(path: Path) -> None:
    ids, groups = np.arange(300)[::-1].copy(), ldp.Public(np.arange(300), why="a group for each record")
    mechanism = ldp.LaplaceHistogram(domain=DOMAIN, epsilon=1, groups=groups)
    values = [curator(path, ids=ids).release(mechanism, rng=SYSTEM).value for _ in range(2)]
    assert np.array_equal(*values)


def test_parts_are_charged_in_parallel_only_where_they_hold_different_records(path: Path) -> None:
    order, parts = np.random.default_rng(0).permutation(300), ldp.Public(np.arange(300) % 2, why="a test")
    ids = np.arange(300)
    holder = curator(path, ids=ids)
    for part in holder.split(parts):
        part.release(response(), rng=SYSTEM)
    assert people(path).spent.epsilon() == 1.0
    curator(path, LABELS[order], ids=ids[order]).split(parts)[1].release(response(), rng=SYSTEM)
    assert people(path).spent.epsilon() == 2.0
    curator(path, ids=ids, revision="two").split(parts)[0].release(response(), rng=SYSTEM)
    assert people(path).spent.epsilon() == 3.0


def test_parts_of_two_curators_on_one_ledger_in_memory_add_up() -> None:
    ledger, parts = ldp.Ledger(ldp.Budget(epsilon=4)), ldp.Public(np.arange(300) % 2, why="a test")
    for place, labels in enumerate((LABELS, LABELS[::-1])):
        Curator(labels, domain=DOMAIN, ledger=ledger).split(parts)[place].release(response(), rng=SYSTEM)
    assert ledger.spent.epsilon() == 2.0


def test_a_stream_is_charged_once_and_its_noise_is_a_function_of_file_and_request(path: Path) -> None:
    holder = curator(path)
    request = holder._request(response(), holder.ledger.randomness, None)
    assert holder.ledger.find_stream(request) is None
    [certificate, again] = [holder.ledger.charge_stream(request, response()) for _ in range(2)]
    found = people(path).find_stream(request)
    assert found is not None and certificate == again and certificate.entries == (found,)
    assert people(path).spent.epsilon() == 1.0
    assert people(path).read().entries[0].form == "stream"
    values = [
        response().randomize(LABELS, rng=ledger.randomness.bind(request.context()), ids=np.arange(len(LABELS)))
        for ledger in (holder.ledger, people(path))
    ]
    assert np.array_equal(*values)


def test_noise_differs_between_datasets_and_revisions(path: Path) -> None:
    ledger = LedgerFile(path)
    for name in ("people", "others"):
        ledger.add(name, ldp.Budget(epsilon=1))
    sources = [ledger.dataset("people"), ledger.dataset("people", revision="two"), ledger.dataset("others")]
    values = [response().randomize(LABELS, rng=source.randomness, ids=np.arange(len(LABELS))) for source in sources]
    assert not any(np.array_equal(values[i], values[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_a_new_dataset_is_on_disk_before_its_labels_are_looked_at(path: Path) -> None:
    ledger = LedgerFile(path)
    assert ledger.datasets() == ()
    dataset = ledger.dataset("people", budget=ldp.Budget(epsilon=2))
    assert (dataset.read().is_new, dataset.charges, dataset.budget) == (True, (), ldp.Budget(epsilon=2))
    with pytest.raises(ldp.privacy.DomainError):
        Curator(LABELS + 1, domain=DOMAIN, ledger=dataset)
    assert (dataset.read().is_new, ledger.datasets(), dataset.charges) == (False, ("people",), ())
    with pytest.raises(ldp.BudgetExceeded):
        Curator(LABELS, domain=DOMAIN, ledger=dataset).release(response(2.5), rng=SYSTEM)
    assert ledger.dataset("people").spent.epsilon() == 0
    Curator(LABELS, domain=DOMAIN, ledger=dataset).release(response(2), rng=SYSTEM)
    assert ledger.dataset("people").spent.epsilon() == 2


def test_a_dataset_that_was_added_meanwhile_is_not_taken_for_this_one(path: Path) -> None:
    one, two = (LedgerFile(path).dataset("people", budget=ldp.Budget(4)) for _ in range(2))
    Curator(LABELS, domain=DOMAIN, ledger=one).release(response(), rng=SYSTEM)
    with pytest.raises(ldp.privacy.LedgerError, match="run again"):
        Curator(LABELS, domain=DOMAIN, ledger=two)
    assert people(path).spent.epsilon() == 1.0


def test_a_budget_is_set_once_and_changed_on_purpose(path: Path) -> None:
    ledger = LedgerFile(path)
    ledger.add("people", ldp.Budget(epsilon=1, delta=1e-6))
    ledger.add("people", ldp.Budget(epsilon=1.0, delta="0.000001"))
    with pytest.raises(ldp.privacy.LedgerError, match=r"LedgerFile\.change"):
        ledger.add("people", ldp.Budget(epsilon=2))
    ledger.change("people", budget=ldp.Budget(epsilon=2))
    curator(path).release(response(2), rng=SYSTEM)
    ledger.change("people", budget=ldp.Budget(epsilon=1.9))
    with pytest.raises(ldp.BudgetExceeded, match=r"epsilon = 2 of .* bring it to 2\.01\. Nothing was charged"):
        curator(path).release(response(0.01), rng=SYSTEM)
    assert ledger.dataset("people").read().promised == ldp.Budget(Fraction(2), Fraction(0))
    with pytest.raises(ldp.privacy.LedgerError, match="no dataset 'nobody'"):
        ledger.change("nobody", budget=ldp.Budget(epsilon=1))


@pytest.mark.parametrize("epsilon", [0.1, 1, "2.50", Fraction(1, 3)])
def test_a_budget_is_stored_exactly(path: Path, epsilon: Any) -> None:
    LedgerFile(path).add("people", ldp.Budget(epsilon=epsilon))
    assert Fraction(str(people(path).budget.epsilon)) == Fraction(str(epsilon))


@pytest.mark.parametrize("name", ["", "  ", "a\nb", None, 7])
def test_a_name_is_a_printable_text(path: Path, name: Any) -> None:
    with pytest.raises(ldp.privacy.InputError, match="name must be a printable text"):
        LedgerFile(path).add(name, ldp.Budget(epsilon=1))
    with pytest.raises(ldp.privacy.InputError, match="revision must be" if name is not None else "name must be"):
        LedgerFile(path).dataset("people" if name is not None else name, revision=name, budget=ldp.Budget(epsilon=1))
    assert not path.exists()


@pytest.mark.parametrize("budget", [None, ldp.Budget(epsilon=9)])
def test_a_typing_error_buys_no_second_budget(path: Path, budget: Any) -> None:
    """`fit … --dataset poeple` succeeded where all of `people` was spent: two noisy answers about every label.

    Each was certified ε = 1 on its own, and together they are ε = 2.
    """
    curator(path, budget=1).release(response(), rng=SYSTEM)
    with pytest.raises(
        ldp.privacy.LedgerError, match=r"no dataset 'poeple'; did you mean 'people'\?.*labeldp ledger add .*"
    ):
        LedgerFile(path).dataset("poeple", budget=budget)
    with pytest.raises(
        ldp.privacy.LedgerError, match=r"no dataset 'income'; it has 'people'\..* --dataset income --epsilon"
    ):
        LedgerFile(path).dataset("income", budget=budget)
    assert LedgerFile(path).datasets() == ("people",)
    LedgerFile(path).add("income", ldp.Budget(1))
    assert LedgerFile(path).dataset("income", budget=budget).budget == ldp.Budget(1.0)


def test_a_file_that_appears_meanwhile_takes_no_second_dataset(path: Path) -> None:
    """Two processes find no file; the one that comes second may not add its own name beside the first."""
    late = LedgerFile(path).dataset("poeple", budget=ldp.Budget(1))
    curator(path).release(response(), rng=SYSTEM)
    with pytest.raises(ldp.privacy.LedgerError, match="did you mean 'people'"):
        Curator(LABELS, domain=DOMAIN, ledger=late)
    assert LedgerFile(path).datasets() == ("people",)


def test_a_file_without_a_dataset_takes_a_first_one(path: Path) -> None:
    """A process that died between making the file and its first dataset leaves this."""
    with LedgerFile(path)._store.writing(create=True):
        pass
    assert curator(path).release(response(), rng=SYSTEM) and LedgerFile(path).datasets() == ("people",)


def test_changes_of_a_budget_are_on_record(path: Path) -> None:
    ledger = LedgerFile(path)
    ledger.add("people", ldp.Budget(epsilon=1))
    ledger.change("people", budget=ldp.Budget(epsilon=1))
    ledger.change("people", budget=ldp.Budget(epsilon=2, delta="1e-6"), why="the board agreed")
    ledger.change("people", budget=ldp.Budget(epsilon=3))
    first, second = people(path).read().changes
    assert (first.what, first.before, first.after, first.why) == (
        "budget", "epsilon = 1, delta = 0", "epsilon = 2, delta = 1e-06", "the board agreed",
    )  # fmt: skip
    assert (second.before, second.why) == (first.after, None) and second.created.endswith("+00:00")
    with pytest.raises(ldp.privacy.InputError, match="why must be a printable text"):
        ledger.change("people", budget=ldp.Budget(epsilon=4), why="two\nlines")
    assert len(people(path).read().changes) == 2 and people(path).budget.epsilon == 3


def test_a_request_without_a_digest_of_the_labels_is_refused(path: Path) -> None:
    ledger = LedgerFile(path).dataset("people", budget=ldp.Budget(epsilon=1))
    request = PendingCharge(response().specification(), response().privacy_loss())
    with pytest.raises(ldp.privacy.InputError, match="digests"), ledger.charging(request, response()):
        pytest.fail("nothing may be drawn")


def test_no_repr_shows_a_key_or_a_digest(path: Path) -> None:
    holder = curator(path)
    holder.release(response(), rng=SYSTEM)
    ledger = people(path)
    request = holder._request(response(), SYSTEM, None)
    secret = [ledger._secret.hex(), repr(ledger._secret), repr(ledger.digest_key), request.labels]
    things = [LedgerFile(path), ledger, holder, ledger.randomness, ledger.read().entries, ledger.charges, request]
    assert not any(text in repr(thing) for thing in things for text in secret)


def test_the_entries_hold_every_release_with_its_certificate(path: Path) -> None:
    release = curator(path, revision="first").release(response(), rng=SYSTEM, step="ignored without a run")
    [entry] = people(path).read().entries
    assert entry.certificate == release.certificate
    assert (entry.revision, entry.form, entry.step) == ("first", "held", None)
    assert entry.created.endswith("+00:00")


def test_a_simulation_is_remembered_as_one(path: Path) -> None:
    release = curator(path).release(response(), rng=np.random.default_rng(0))
    assert "SIMULATION" in people(path).read().entries[0].certificate.at()
    fresh = curator(path).release(response(), rng=SYSTEM)
    assert not np.array_equal(release.value, fresh.value)
    assert people(path).spent.epsilon() == 2.0


def test_the_key_of_the_ledger_gives_one_output_for_one_charge(path: Path) -> None:
    holders = (curator(path) for _ in range(3))
    values = [holder.release(response(), rng=holder.ledger.randomness).value for holder in holders]
    assert np.array_equal(values[0], values[1]) and np.array_equal(values[0], values[2])
    assert len(people(path).charges) == 1


def test_runs_share_a_release_that_has_no_array_of_its_own(path: Path) -> None:
    holders = (curator(path, run=run) for run in ("a fit", "another fit"))
    runs = [holder.release(response(), rng=holder.ledger.randomness, step="stage 1") for holder in holders]
    assert np.array_equal(runs[0].value, runs[1].value)
    assert len(people(path).charges) == 1


def test_a_stage_found_again_keeps_the_certificate_of_that_time(path: Path) -> None:
    loud = curator(path).release(response(2), rng=SYSTEM)
    prior = loud.map(lambda codes: np.eye(3)[codes])
    mechanism = ldp.mechanisms.RandomizedResponseWithPrior(domain=DOMAIN, epsilon=1, prior=prior)
    first = curator(path, run="fit").release(mechanism, rng=SYSTEM, step="stage 2")
    again = curator(path, run="fit").release(with_prior(2), rng=SYSTEM, step="stage 2")
    assert again.certificate == first.certificate
    assert again.certificate.epsilon() == 3.0


def test_a_copy_for_an_audit_draws_the_same_noise_again_and_changes_nothing(path: Path, tmp_path: Path) -> None:
    keyed = curator(path)
    first = keyed.release(response(), rng=keyed.ledger.randomness)
    before = path.read_bytes()
    for values in (True, False):
        target = tmp_path / f"copy {values}"
        copy = copy_ledger(path, target, values=values)
        assert target.stat().st_mode & 0o777 == 0o600
        with closing(sqlite3.connect(target)) as connection:
            held = connection.execute("SELECT count(*) FROM release WHERE value IS NOT NULL").fetchone()[0]
        assert held == int(values)
        holder = Curator(LABELS, domain=DOMAIN, ledger=copy.dataset("people"))
        again = holder.release(response(), rng=holder.ledger.randomness)
        assert np.array_equal(first.value, again.value) and first.certificate == again.certificate
        assert len(copy.dataset("people").charges) == 1
    assert path.read_bytes() == before
    with pytest.raises(ldp.privacy.LedgerError):
        copy_ledger(tmp_path, tmp_path / "no", values=True)


def test_the_secret_of_a_dataset_is_in_no_repr() -> None:
    assert "s3cr3t" not in repr(Dataset(1, "people", ldp.Budget(1), b"s3cr3t"))
