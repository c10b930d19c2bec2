"""Audits of what was written: what agrees, what was changed, what is made again, and that nothing is charged."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from conftest import table_of_people
from labeldp.curator import LedgerFile
from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import Budget, InputError, LedgerError
from labeldp.workflows import (
    FitSettings,
    OnlineRun,
    RunAudit,
    audit_run,
    fit_file,
    release_bags,
    release_file,
    run_online,
)
from slow import mostly_slow

SETTINGS = FitSettings(
    label="bought",
    domain=Classes(("no", "yes")),
    epsilon=1.0,
    delta=0.0,
    dataset="bought",
    id_column="id",
    model="linear",
)


def audit_of(folder: Path, path: str, **files: str) -> RunAudit:
    before = (folder / "people.ledger").read_bytes() if (folder / "people.ledger").exists() else b""
    found = audit_run(str(folder / path), **{name: str(folder / file) for name, file in files.items()})
    assert not before or (folder / "people.ledger").read_bytes() == before, "nothing is charged"
    json.dumps(found.to_json())
    return found


@pytest.fixture
def released(people: Path) -> Path:
    release_file(
        people / "people.csv",
        label="bought",
        domain=Classes(("no", "yes")),
        epsilon=1,
        ledger=people / "people.ledger",
        dataset="bought",
        out=people / "noisy.csv",
        id_column="id",
    )
    return people


def test_a_release_alone_is_checked_against_its_certificate(released: Path) -> None:
    found = audit_of(released, "noisy.csv")
    assert found.holds and not found.secret and found.bound is None and found.claim == 1.0
    assert found.kind == "release" and set(found.digests) == {"noisy.csv"}
    assert "each label was released once" in found.checks[1].sentence
    assert any("--ledger" in each for each in found.not_checked)
    text = (released / "noisy.csv").read_text()
    (released / "noisy.csv").write_text(text.replace("yes", "no", 1))
    assert not audit_of(released, "noisy.csv").holds


def test_with_its_ledger_the_charges_are_found_and_counted(released: Path) -> None:
    found = audit_of(released, "noisy.csv", ledger="people.ledger")
    assert found.holds and not found.secret
    assert any("within its budget" in check.sentence for check in found.checks)
    LedgerFile(released / "other.ledger").add("bought", Budget(epsilon=1))
    assert not audit_of(released, "noisy.csv", ledger="other.ledger").holds
    with pytest.raises(LedgerError):
        audit_of(released, "noisy.csv", ledger="people.csv")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_with_its_data_the_released_values_are_made_again(released: Path, suffix: str) -> None:
    found = audit_of(released, "noisy.csv", ledger="people.ledger", data=f"people.{suffix}")
    assert found.holds and found.secret
    assert found.checks[-1].sentence.endswith("every released value is the same.")
    assert found.bound is not None and 0 <= found.bound.epsilon <= 1.3


def test_values_that_no_key_gave_are_found(released: Path) -> None:
    """Whoever edits the column, its digest and all, is found by whoever has ledger and data."""
    from labeldp.tables import column_digest

    table = pd.read_csv(released / "noisy.csv")
    table["bought"] = np.where(table["bought"] == "yes", "no", "yes")
    table.to_csv(released / "noisy.csv", index=False)
    beside = released / "noisy.csv.certificate.json"
    content = json.loads(beside.read_text())
    content["digest"] = column_digest([table["bought"].tolist()])
    beside.write_text(json.dumps(content))
    assert audit_of(released, "noisy.csv", ledger="people.ledger").holds
    found = audit_of(released, "noisy.csv", ledger="people.ledger", data="people.csv")
    assert not found.holds and "NOT the same" in found.checks[-1].sentence


def test_other_labels_and_other_records_are_found(released: Path) -> None:
    other = table_of_people(600, seed=1)
    other.loc[0, "bought"] = "no" if other.loc[0, "bought"] == "yes" else "yes"
    other.to_csv(released / "other.csv", index=False)
    table_of_people(600, seed=5).to_csv(released / "others.csv", index=False)
    for name in ("other.csv", "others.csv"):
        found = audit_of(released, "noisy.csv", ledger="people.ledger", data=name)
        assert not found.holds
        assert "could NOT be made again" in found.checks[-1].sentence
    with pytest.raises(InputError, match="no such file"):
        audit_of(released, "noisy.csv", ledger="people.ledger", data="nowhere.csv")
    with pytest.raises(InputError, match="ledger must be given with --data"):
        audit_of(released, "noisy.csv", data="people.csv")


@pytest.mark.parametrize(
    ("mechanism", "domain", "epsilon"),
    [
        ("unary-encoding", Classes(("no", "yes")), 2.5),
        ("partition-response", Classes(("no", "yes", "perhaps")), 2),
        ("discrete-laplace", Interval(18, 80, grid=63), 3),
        ("unbiased-numbers", Interval(18, 80, grid=63), 3),
        ("response-on-bins", Interval(18, 80, grid=63), 3),
    ],
)
def test_every_mechanism_of_single_records_is_made_again(
    people: Path, mechanism: str, domain: Classes | Interval, epsilon: float
) -> None:
    table = table_of_people(600, seed=1).dropna()
    table.to_csv(people / "whole.csv", index=False)
    label = "age" if isinstance(domain, Interval) else "bought"
    release_file(
        people / "whole.csv",
        label=label,
        domain=domain,
        mechanism=mechanism,
        epsilon=epsilon,
        ledger=people / "people.ledger",
        dataset="people",
        out=people / "noisy.parquet",
        in_place=True,
    )
    found = audit_of(people, "noisy.parquet", ledger="people.ledger", data="whole.csv")
    assert found.holds, found
    assert "is the same" in found.checks[-1].sentence
    assert found.bound is None or found.bound.epsilon <= epsilon


def test_a_folder_is_made_again(people: Path) -> None:
    (people / "parts").mkdir()
    for number in range(3):
        table_of_people(100, seed=number + 1).to_csv(people / "parts" / f"{number}.csv", index=False)
    release_file(
        people / "parts",
        label="bought",
        domain=Classes(("no", "yes")),
        epsilon=1,
        ledger=people / "people.ledger",
        dataset="bought",
        out=people / "noisy",
        id_column="id",
    )
    found = audit_of(people, "noisy", ledger="people.ledger", data="parts")
    assert found.holds and "is the same" in found.checks[-1].sentence and found.secret


@pytest.mark.parametrize(("trust", "stages"), mostly_slow([("local", 1), ("local", 2), ("central", 1)], [("local", 1)]))
def test_a_fit_is_made_again_up_to_its_last_release(people: Path, trust: str, stages: int) -> None:
    model = "auto" if stages > 1 else "linear"
    settings = replace(SETTINGS, trust=trust, delta=0.0 if trust == "local" else 1e-6, stages=stages, model=model)
    fit_file(str(people / "people.csv"), settings, ledger=str(people / "people.ledger"), out=str(people / "model"))
    before = (people / "people.ledger").read_bytes()
    found = audit_run(
        str(people / "model"),
        ledger=str(people / "people.ledger"),
        data=str(people / "people.csv"),
        settings=settings,
    )
    assert (people / "people.ledger").read_bytes() == before
    assert found.holds, found.checks
    assert "the values that were stored" in found.checks[-1].sentence
    assert not any("not drawn again" in each for each in found.not_checked)
    assert found.kind == "fit" and not found.refuted
    assert trust == "central" or found.bound is not None
    if stages > 1:
        return
    without = audit_run(str(people / "model"), ledger=str(people / "people.ledger"), data=str(people / "people.csv"))
    assert without.holds and any("options of the fit" in each for each in without.not_checked)


def test_an_online_run_is_played_again(people: Path) -> None:
    losses = pd.DataFrame(np.random.default_rng(0).random((200, 3)), columns=list("abc"))
    losses.to_csv(people / "losses.csv", index=False)
    run_online(
        people / "losses.csv",
        OnlineRun(epsilon=1),
        out=people / "decisions.csv",
        ledger=people / "people.ledger",
        dataset="losses",
    )
    found = audit_of(people, "decisions.csv", ledger="people.ledger", data="losses.csv")
    assert found.holds and found.kind == "online run" and "is the same" in found.checks[-1].sentence
    losses.iloc[0, 0] = 1 - losses.iloc[0, 0]
    losses.to_csv(people / "other.csv", index=False)
    assert not audit_of(people, "decisions.csv", ledger="people.ledger", data="other.csv").holds


def test_a_second_release_of_the_same_labels_is_counted(released: Path) -> None:
    account = LedgerFile(released / "people.ledger")
    account.set_budget("bought", Budget(epsilon=3))
    release_file(
        released / "people.csv",
        label="bought",
        domain=Classes(("no", "yes")),
        epsilon=2,
        ledger=released / "people.ledger",
        dataset="bought",
        out=released / "more.csv",
        id_column="id",
    )
    found = audit_of(released, "noisy.csv", ledger="people.ledger")
    assert any(
        "2 releases of 'bought' in all, up to 2 of one label; they cost epsilon = 3" in c.sentence for c in found.checks
    )
    shutil.rmtree(released / "model", ignore_errors=True)
    with pytest.raises(InputError, match="there is no file or directory"):
        audit_of(released, "model")


def test_a_certificate_that_somebody_edited_is_no_traceback(released: Path) -> None:
    """Whatever stands in it, what is made again follows from the ledger's own charge."""
    beside = released / "noisy.csv.certificate.json"
    for place, value in (
        (("domain",), None),
        (("mechanism",), 3),
        (("epsilon",), "x"),
        (("rounds",), 5),
        (("plan",), {}),
    ):
        content = json.loads(beside.read_text())
        charge = content["certificate"]["entries"][0]
        charge["mechanism"][place[0]] = value
        (released / "edited.csv").write_bytes((released / "noisy.csv").read_bytes())
        (released / "edited.csv.certificate.json").write_text(json.dumps(content))
        found = audit_of(released, "edited.csv", ledger="people.ledger", data="people.csv")
        assert not found.holds
        assert any("not in the ledger as certified" in each for each in found.not_checked)


@pytest.mark.parametrize(
    "asked",
    [
        {"mechanism": "bag-sum", "id_column": "id"},
        {"mechanism": "bag-sum", "bags": "team"},
        {"mechanism": "bag-sum", "bags": "random", "person_column": "who", "delta": "1e-6", "id_column": "id"},
        {"mechanism": "weighted-lba", "delta": "1e-6", "rows": 2, "id_column": "id"},
        {"mechanism": "noisy-weighted-llp", "delta": "1e-6", "noisy": 9, "weights": "gaussian", "bags": "team"},
    ],
)
def test_sums_over_bags_are_made_again(people: Path, asked: dict[str, Any]) -> None:
    """How bags were made, whose persons they are and what names records is found out, where the output does not say."""
    rows = np.arange(120)
    columns = {"id": rows + 500, "pay": rows * 7 % 31, "team": rows // 12, "who": rows // 2, "hours": rows * 13 % 41}
    table = pd.DataFrame(columns)
    table.to_csv(people / "numbers.csv", index=False)
    release_bags(
        str(people / "numbers.csv"),
        label="hours",
        domain=Interval(0, 40, grid=41),
        size=10,
        epsilon=1,
        ledger=people / "people.ledger",
        dataset="bags",
        out=people / "sums.csv",
        **asked,
    )
    found = audit_of(people, "sums.csv", ledger="people.ledger", data="numbers.csv")
    assert found.holds and found.checks[-1].sentence.endswith("every released value is the same.")
    assert found.bound is None and any("one output" in each for each in found.not_checked)
    table.assign(hours=(table["hours"] + (rows == 3)) % 41).to_csv(people / "other.csv", index=False)
    assert not audit_of(people, "sums.csv", ledger="people.ledger", data="other.csv").holds


def test_a_release_that_protects_persons_is_made_again(people: Path) -> None:
    table = table_of_people(600, seed=1).assign(age=1, who=np.arange(600) // 3)
    table.to_csv(people / "owned.csv", index=False)
    release_file(
        people / "owned.csv",
        label="bought",
        domain=Classes(("no", "yes")),
        epsilon=1,
        ledger=people / "people.ledger",
        dataset="bought",
        out=people / "noisy.csv",
        id_column="id",
        person_column="who",
    )
    found = audit_of(people, "noisy.csv", ledger="people.ledger", data="owned.csv")
    assert found.holds and found.checks[-1].sentence.endswith("every released value is the same.")
    table.assign(who=np.arange(600) // 2).to_csv(people / "other.csv", index=False)
    assert not audit_of(people, "noisy.csv", ledger="people.ledger", data="other.csv").holds


def test_ids_that_a_release_in_place_does_not_name_are_found(people: Path) -> None:
    release_file(
        people / "people.csv",
        label="bought",
        domain=Classes(("no", "yes")),
        epsilon=1,
        ledger=people / "people.ledger",
        dataset="bought",
        out=people / "noisy.csv",
        id_column="id",
        in_place=True,
    )
    assert audit_of(people, "noisy.csv", ledger="people.ledger", data="people.csv").holds


def test_a_run_on_some_columns_is_played_again_when_they_are_named(people: Path) -> None:
    """Where they are not, that is no alarm."""
    losses = pd.DataFrame(np.random.default_rng(0).random((200, 4)), columns=list("abcd"))
    losses.to_csv(people / "losses.csv", index=False)
    out, ledger = people / "decisions.csv", people / "people.ledger"
    run = OnlineRun(epsilon=1, experts=("d", "a"))
    run_online(people / "losses.csv", run, out=out, ledger=ledger, dataset="losses")
    asked = {"path": str(out), "ledger": str(ledger), "data": str(people / "losses.csv")}
    unnamed = audit_run(**asked)
    assert unnamed.holds and any("between 2 columns, not 4; --experts" in each for each in unnamed.not_checked)
    found = audit_run(**asked, experts=("d", "a"))
    assert found.holds and found.checks[-1].sentence.endswith("every released value is the same.")
    assert not audit_run(**asked, experts=("a", "d")).holds


def test_a_run_on_levels_of_zero_and_one_is_played_again(people: Path) -> None:
    """They could be losses, too."""
    losses = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (100, 3)), columns=list("abc"))
    losses.to_csv(people / "losses.csv", index=False)
    run = OnlineRun(epsilon=1, levels=True)
    run_online(
        people / "losses.csv", run, out=people / "decisions.csv", ledger=people / "people.ledger", dataset="losses"
    )
    found = audit_of(people, "decisions.csv", ledger="people.ledger", data="losses.csv")
    assert found.holds and found.checks[-1].sentence.endswith("every released value is the same.")


def test_a_killed_audit_leaves_a_folder_for_its_owner_alone(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(ledger: str, target: Path, *, values: bool) -> None:
        place = target.parent
        seen.append(place)
        assert place.stat().st_mode & 0o077 == 0
        raise InputError("stop")

    monkeypatch.setattr("labeldp.workflows.audit.copy_ledger", look)
    with pytest.raises(InputError, match="stop"):
        audit_of(released, "noisy.csv", ledger="people.ledger", data="people.csv")
    assert seen and not seen[0].exists()
