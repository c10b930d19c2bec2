"""Declared domains: on disk before a label is compared with one, changed on purpose, counted in certificates."""

import traceback
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from curator.ledgers import SYSTEM, asked
from labeldp.cli.ledger import describe_ledger
from labeldp.curator import LOSSES, Curator, DatasetLedger, LedgerFile
from labeldp.curator.datasets import Declared
from labeldp.mechanisms import Domain
from labeldp.releases import release_file

SALARIES = np.random.default_rng(0).integers(20_000, 90_000, 300).astype(float)

WORDS = "one bit about all labels together, which no epsilon covers, may have been told each time that the declared "


def opened(path: Path, name: str = "salary", **more: Any) -> DatasetLedger:
    """The dataset as every new process would open it."""
    return LedgerFile(path).dataset(name, budget=ldp.Budget(epsilon=4), **more)


def held(path: Path, domain: Domain, labels: Any = SALARIES, **more: Any) -> Curator:
    return Curator(labels, domain=domain, ledger=opened(path, **more))


def released(curator: Curator, epsilon: float = 1) -> ldp.Certificate:
    mechanism = ldp.DiscreteLaplace(domain=curator.domain, epsilon=epsilon)
    return curator.release(mechanism, rng=SYSTEM).certificate


def counted(certificate: ldp.Certificate) -> str:
    """The sentence about unprotected bits, empty where there is none."""
    [*found] = [text for text in certificate.assumptions if text.startswith(WORDS)]
    return "".join(found).removeprefix(WORDS)


@pytest.mark.guarantee("labeldp.curator:DatasetLedger", "domain_first")
def test_refusals_do_not_find_the_largest_salary(path: Path) -> None:
    """Bisection by `Interval(0, mid)` found the largest salary of a column exactly, in 17 refusals or acceptances, with
    epsilon = 0 spent and nothing on record. Now the first of them is declared, and the second reads no label."""
    low, high, looks = 0, 131_072, 0
    while high - low > 1 and looks < 40:
        middle = (low + high) // 2
        try:
            held(path, ldp.Interval(0, middle))
            high = middle
        except ldp.privacy.DomainError:
            low = middle
        except ldp.privacy.LedgerError:
            break
        looks += 1
    assert looks == 1 and high - low == 65_536
    assert opened(path).spent.epsilon() == 0
    [only] = opened(path).read().domains
    assert only.words == "numbers from 0 to 65536" and (only.passed, only.refused) == (0, 1)


@pytest.mark.parametrize("labels", [SALARIES, SALARIES * 0 + 1, SALARIES * 9, [None] * 300, ["text"] * 300])
def test_another_domain_is_refused_by_the_same_sentence_whatever_the_labels(path: Path, labels: Any) -> None:
    """The refusal names the domain that was declared, and the step that declares another; no label is looked at."""
    LedgerFile(path).add("salary", ldp.Budget(epsilon=4), ldp.Interval(0, 100_000))
    with pytest.raises(ldp.privacy.LedgerError) as caught:
        held(path, ldp.Interval(0, 50_000), labels)
    command = f"labeldp ledger add {path} --dataset salary --change --range 0,50000"
    assert str(caught.value) == (
        "the declared domain of 'salary' is numbers from 0 to 100000, and not numbers from 0 to 50000. No label was "
        "read, and nothing was charged. To declare another domain, independent of the labels, use this command; "
        f"later certificates count the change: {command}"
    )
    assert [(each.passed, each.refused) for each in opened(path).read().domains] == [(0, 0)]


def test_labels_that_do_not_fit_are_refused_by_the_same_sentence_whatever_is_wrong(path: Path) -> None:
    """Which label, where, how many, or whether one is missing: a refusal tells none of it."""
    LedgerFile(path).add("salary", ldp.Budget(epsilon=4))
    said = set()
    wrong: list[Any] = [[1e9, *SALARIES[1:]], [*SALARIES[1:], -1], [float("nan")] * 300, ["text"] * 300, [None] * 300]
    for labels in wrong:
        with pytest.raises(ldp.privacy.DomainError) as caught:
            held(path, ldp.Interval(0, 100_000), labels)
        said.add(str(caught.value))
        assert caught.value.__context__ is None and caught.value.__cause__ is None
        frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
        assert frames[-1] == "held", "frames that hold labels are gone"
    [sentence] = said
    assert "--clip" in sentence and "--clip" in sentence and "--change" in sentence
    assert opened(path).read().domains[0].refused == 5


def test_a_refusal_is_counted_and_clip_is_no_other_domain(path: Path) -> None:
    """What the refusal recommends runs, and the certificate says that labels were refused."""
    with pytest.raises(ldp.privacy.DomainError):
        held(path, ldp.Interval(0, 50_000))
    certificate = released(held(path, ldp.Interval(0, 50_000, clip=True)))
    assert counted(certificate) == (
        "domain was changed (0 times before this release) or that labels were refused (1 time)"
    )
    assert counted(certificate) in certificate.at()
    assert [entry.certificate for entry in opened(path).read().entries] == [certificate]


def test_a_further_domain_is_a_deliberate_step_that_later_certificates_count(path: Path) -> None:
    """Domains that were declared before stay admitted, and what was released before keeps its certificate."""
    first = released(held(path, ldp.Interval(0, 100_000)))
    assert counted(first) == ""
    LedgerFile(path).change("salary", domain=ldp.Interval(0, 200_000), why="bonuses count, too")
    second = released(held(path, ldp.Interval(0, 200_000)))
    assert counted(second) == "domain was changed (1 time before this release) or that labels were refused (0 times)"
    LedgerFile(path).change("salary", domain=ldp.Interval(-1000, 200_000))
    third = released(held(path, ldp.Interval(-1000, 200_000)))
    assert counted(third).startswith("domain was changed (2 times before this release)")
    assert released(held(path, ldp.Interval(0, 100_000))) == first  # found again as it was
    assert [(change.what, change.before, change.after, change.why) for change in opened(path).read().changes] == [
        ("declared domain", "numbers from 0 to 100000", "numbers from 0 to 200000", "bonuses count, too"),
        (
            "declared domain",
            "numbers from 0 to 100000 or numbers from 0 to 200000",
            "numbers from -1000 to 200000",
            None,
        ),
    ]


def test_domains_that_stay_declared_are_no_change(path: Path) -> None:
    ledger = LedgerFile(path)
    ledger.add("salary", ldp.Budget(epsilon=4), ldp.Interval(0, 100_000))
    ledger.add("salary", ldp.Budget(epsilon=4), ldp.Interval(0, 100_000))
    ledger.change("salary", domain=ldp.Interval(0, 100_000, grid=7), why="nothing new")
    assert opened(path).read().changes == () and len(opened(path).read().domains) == 1
    with pytest.raises(ldp.privacy.LedgerError, match="--change --range 0,5"):
        ledger.add("salary", ldp.Budget(epsilon=4), ldp.Interval(0, 5))
    with pytest.raises(ldp.privacy.LedgerError, match="no dataset 'wages'"):
        ledger.change("wages", domain=ldp.Interval(0, 5))
    with pytest.raises(ldp.privacy.InputError, match="domain must be declared"):
        ledger.change("salary", domain=(0, 5))  # type: ignore[arg-type]
    with pytest.raises(ldp.privacy.InputError, match="why must be a printable text"):
        ledger.change("salary", domain=ldp.Interval(0, 5), why="")


SAME: list[tuple[Domain, Domain]] = [
    (ldp.Classes(("no", "yes")), ldp.Classes(("yes", "no"))),
    (ldp.Classes(3), ldp.Classes(("2", "0", "1"))),
    (ldp.Interval(0, 80), ldp.Interval(0.0, 80, grid=9, clip=True)),
    (ldp.Interval(Fraction(1, 10), 1), ldp.Interval(0.1, 1)),  # type: ignore[arg-type]
]

OTHERS: list[tuple[Domain, Domain]] = [
    (ldp.Classes(("no", "yes")), ldp.Classes(("no", "yes", "maybe"))),
    (ldp.Classes(("no", "yes")), ldp.Classes(("no", "Yes"))),
    (ldp.Classes(("a,b", "c")), ldp.Classes(("a", "b,c"))),
    (ldp.Classes(2), ldp.Interval(0, 1)),
    (ldp.Interval(0, 80), ldp.Interval(0, 80.5)),
    (ldp.Interval(0, 1), ldp.Interval(-0.001, 1)),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_another_order_form_or_grid_is_no_other_domain(one: Domain, other: Domain) -> None:
    assert Declared.of(one).form == Declared.of(other).form


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_another_set_or_range_is_another_domain(one: Domain, other: Domain) -> None:
    assert len({Declared.of(one).form, Declared.of(other).form, LOSSES.form}) == 3


def test_domains_are_named_as_they_are_typed() -> None:
    assert Declared.of(ldp.Interval(-0.5, 1e6)).options == "--range -0.5,1000000"
    assert Declared.of(ldp.Classes(("not yet", "yes"))).options == "--classes 'not yet,yes'"
    assert Declared.of(ldp.Classes(1000)).options == "--classes 1000"
    assert Declared.of(ldp.Classes(("a,b", "c"))).options == "--classes …"
    assert Declared.of(ldp.Classes(1000)).words.endswith("'6', '7', …, '999'")


@pytest.mark.parametrize("ids", [[1] * 300, [[1]] * 300])
def test_what_is_wrong_without_a_look_at_labels_declares_nothing(path: Path, ids: Any) -> None:
    with pytest.raises(ldp.privacy.InputError, match="ids must be"):
        Curator(SALARIES, domain=ldp.Interval(0, 1), ledger=opened(path), ids=ids)
    assert not path.exists()


def test_an_error_that_no_domain_made_is_no_refusal_and_an_interrupt_neither(path: Path) -> None:
    """What tells nothing of labels counts nothing; what may tell something does, whatever it is."""
    domain = ldp.Interval(0, 100_000)

    def ends(error: type[BaseException], told: type[BaseException]) -> BaseException:
        with pytest.raises(told) as caught, opened(path).comparing(domain):
            raise error("ended")
        return caught.value

    held(path, domain)
    for error in (ldp.privacy.InputError, KeyboardInterrupt):
        ends(error, error)
    assert opened(path).read().domains[0].refused == 0
    for error in (OverflowError, MemoryError):
        shown = "".join(traceback.format_exception(ends(error, ldp.privacy.LabelDPError)))
        assert "could not be compared" in shown and "ended" not in shown and error.__name__ not in shown
    assert (opened(path).read().domains[0].passed, opened(path).read().domains[0].refused) == (1, 2)


@pytest.mark.guarantee("labeldp.curator:DatasetLedger", "refusal_recorded")
def test_a_ledger_that_cannot_be_written_tells_neither_that_labels_fit_nor_that_they_do_not(path: Path) -> None:
    """Otherwise a process that holds the file locked while labels are compared would look for free, again and again."""
    domain = ldp.Interval(0, 50_000)
    LedgerFile(path).add("salary", ldp.Budget(epsilon=4), domain)
    said = []
    for labels in (SALARIES, SALARIES * 0):
        with pytest.raises(ldp.privacy.LedgerError) as caught, opened(path).comparing(domain):
            path.chmod(0o640)  # nobody may use such a file
            domain.encode(labels)
        behind = caught.value.__context__
        while behind is not None:
            assert not isinstance(behind, ldp.privacy.DomainError)
            behind = behind.__context__
        said.append(str(caught.value))
        path.chmod(0o600)
    assert said[0] == said[1]
    assert [(each.passed, each.refused) for each in opened(path).read().domains] == [(0, 0)]


def test_revisions_and_other_records_have_the_same_declared_domain(path: Path) -> None:
    """A subset of the rows, or a revision, is compared with what was declared, and its refusal is counted."""
    held(path, ldp.Interval(0, 50_000), SALARIES[SALARIES < 50_000])
    for rows in range(3):
        with pytest.raises(ldp.privacy.LedgerError, match="No label was read"):
            held(path, ldp.Interval(0, 25_000), SALARIES[rows : rows + 1], revision=f"row {rows}")
    for _ in range(3):
        with pytest.raises(ldp.privacy.DomainError):
            held(path, ldp.Interval(0, 50_000), SALARIES[SALARIES > 50_000][:1], revision="another")
    fits = held(path, ldp.Interval(0, 50_000), SALARIES[SALARIES < 50_000])
    assert counted(released(fits)).endswith("labels were refused (3 times)")


def test_a_ledger_in_memory_remembers_no_domain() -> None:
    ledger = ldp.Ledger(ldp.Budget(1))
    for high in (50_000, 100_000):
        try:
            Curator(SALARIES, domain=ldp.Interval(0, high), ledger=ledger)
        except ldp.privacy.DomainError as error:
            assert "declared domain" in str(error)


def test_other_labels_than_before_are_refused_on_record(path: Path) -> None:
    """Whether two labels are equal was told by swapping two ids: found again where they are, refused where not.

    With one label known, 199 such requests found all others of 200 records, and the ledger said neither that anybody
    had asked nor what it had cost. The refusals are counted now, on disk before they are told, and certificates say so.
    """
    labels, ids = np.random.default_rng(1).integers(0, 2, 200), np.arange(200)

    def ask(names: np.ndarray) -> ldp.Release[Any]:
        curator = Curator(labels, domain=ldp.Classes(2), ledger=opened(path), ids=names)
        return curator.release(ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=0.5), rng=SYSTEM)

    ask(ids)
    differ = 0
    for other in range(1, 200):
        swapped = ids.copy()
        swapped[[0, other]] = other, 0
        try:
            ask(swapped)
        except ldp.privacy.LedgerError as error:
            assert "not the labels or losses that were released before" in str(error)
            differ += 1
    assert differ == (labels != labels[0]).sum() and opened(path).spent.epsilon() == 0.5
    assert f"Other labels were refused {differ} times." in describe_ledger(str(path))
    louder = ldp.RandomizedResponse(domain=ldp.Classes(2), epsilon=0.25)
    holder = Curator(labels, domain=ldp.Classes(2), ledger=opened(path), ids=ids)
    assert f"labels were refused ({differ} times)" in counted(holder.release(louder, rng=SYSTEM).certificate)


def test_a_budget_that_is_spent_lets_no_label_be_looked_at_under_a_new_revision(path: Path) -> None:
    """The same mechanism under another revision was let through as if it were found again; each name was a trial."""
    labels, domain = np.arange(20) % 2, ldp.Classes(2)
    mechanism = ldp.RandomizedResponse(domain=domain, epsilon=4)
    Curator(labels, domain=domain, ledger=opened(path)).release(mechanism, rng=SYSTEM)
    opened(path).read().afford(asked(mechanism))
    with pytest.raises(ldp.BudgetExceeded):
        opened(path, revision="next").read().afford(asked(mechanism))


@pytest.mark.parametrize("labels", [[], np.zeros((3, 2)), np.zeros(3)], ids=["none", "a matrix", "more than ids"])
def test_what_is_wrong_whatever_the_labels_are_declares_nothing(path: Path, labels: Any) -> None:
    """Numbers of labels and ids are public: an error in them is told before the domain is pinned."""
    with pytest.raises(ldp.privacy.InputError, match=r"^(labels|ids) must"):
        Curator(labels, domain=ldp.Interval(0, 1), ledger=opened(path), ids=[1])
    assert not path.exists()


def test_a_standing_release_of_other_labels_is_refused_on_record(path: Path, tmp_path: Path) -> None:
    """The same command on a changed file, its output standing, told whether a label had changed, and nobody counted."""
    table, out = tmp_path / "people.csv", tmp_path / "noisy.csv"
    asked = {"label": "y", "domain": ldp.Classes(2), "epsilon": 1, "ledger": path, "dataset": "salary", "out": out}
    table.write_text("y\n" + "0\n1\n" * 20)
    release_file(table, **asked)
    release_file(table, **asked)
    assert opened(path).read().differences == 0
    table.write_text("y\n" + "1\n0\n" * 20)
    with pytest.raises(ldp.privacy.InputError, match="exists already and is not this release"):
        release_file(table, **asked)
    assert opened(path).read().differences == 1 and opened(path).spent.epsilon() == 1


def test_ten_names_are_shown_and_of_eleven_nine() -> None:
    ten, eleven = (Declared.of(ldp.Classes(tuple(f"c{i:02}" for i in range(count)))).words for count in (10, 11))
    assert ten == f"the 10 classes {', '.join(repr(f'c{i:02}') for i in range(10))}"
    assert eleven == f"the 11 classes {', '.join(repr(f'c{i:02}') for i in range(8))}, …, 'c10'"


def test_losses_are_declared_in_words() -> None:
    assert (LOSSES.form, LOSSES.words) == ("losses", "losses in [0, 1], or their levels")
