"""Audits of what was written: what agrees, what was changed, what is made again, and that nothing is charged."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labeldp.audit import RunAudit, audit_run
from labeldp.bags import release_bags
from labeldp.curator import LedgerFile
from labeldp.fit import FitSummary, fit_file, fit_request, verify
from labeldp.fit.bundle import file_digest
from labeldp.mechanisms import Classes, Interval
from labeldp.online import run_online
from labeldp.privacy import Budget, InputError, LedgerError
from labeldp.releases import check_charges, release_file
from labeldp.report import render_report
from labeldp.tables import column_digest
from people import table_of_people
from slow import mostly_slow

ASKED: dict[str, Any] = {"label": "bought", "domain": Classes(("no", "yes")), "epsilon": 1.0, "delta": 0.0}
ASKED |= {"dataset": "bought", "id_column": "id", "model": "linear"}


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
    assert found.verdict == "unverified" and not found.secret and found.bound is None and found.claim == 1.0
    assert found.kind == "release" and set(found.digests) == {"noisy.csv"}
    unsigned, times = [check for check in found.checks if check.holds is None]
    assert unsigned.sentence.endswith("is unsigned and was not checked.")
    assert "each label was released once" in times.sentence
    assert any("--ledger" in each for each in found.not_checked)
    text = (released / "noisy.csv").read_text()
    (released / "noisy.csv").write_text(text.replace("yes", "no", 1))
    assert audit_of(released, "noisy.csv").verdict == "fails"


def test_with_its_ledger_the_charges_are_found_and_counted(released: Path) -> None:
    found = audit_of(released, "noisy.csv", ledger="people.ledger")
    assert found.verdict == "unverified" and not found.secret
    assert [check.holds for check in found.checks] == [True, True, True, True, True, True, None]
    assert any("within its budget" in check.sentence for check in found.checks)
    LedgerFile(released / "other.ledger").add("bought", Budget(epsilon=1))
    assert audit_of(released, "noisy.csv", ledger="other.ledger").verdict == "fails"
    LedgerFile(released / "third.ledger").add("sold", Budget(epsilon=1))
    found = audit_of(released, "noisy.csv", ledger="third.ledger")
    assert found.verdict == "fails" and any("has no dataset 'bought'" in check.sentence for check in found.checks)
    with pytest.raises(LedgerError):
        audit_of(released, "noisy.csv", ledger="people.csv")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_with_its_data_the_released_values_are_made_again(released: Path, suffix: str) -> None:
    found = audit_of(released, "noisy.csv", ledger="people.ledger", data=f"people.{suffix}")
    assert found.verdict == "holds" and found.secret
    assert found.checks[-1].sentence.endswith("every released value is the same.")
    assert found.bound is not None and 0 <= found.bound.epsilon <= 1.3


def test_values_that_no_key_gave_are_found(released: Path) -> None:
    """Whoever edits the column, its digest and all, is found by whoever has ledger and data."""
    table = pd.read_csv(released / "noisy.csv")
    table["bought"] = np.where(table["bought"] == "yes", "no", "yes")
    table.to_csv(released / "noisy.csv", index=False)
    beside = released / "noisy.csv.certificate.json"
    content = json.loads(beside.read_text())
    content |= {"digest": column_digest([table["bought"].tolist()]), "sha256": file_digest(released / "noisy.csv")}
    beside.write_text(json.dumps(content))
    assert audit_of(released, "noisy.csv", ledger="people.ledger").verdict == "unverified"
    found = audit_of(released, "noisy.csv", ledger="people.ledger", data="people.csv")
    assert found.verdict == "fails" and "NOT the same" in found.checks[-1].sentence


def test_other_labels_and_other_records_are_found(released: Path) -> None:
    other = table_of_people(600, seed=1)
    other.loc[0, "bought"] = "no" if other.loc[0, "bought"] == "yes" else "yes"
    other.to_csv(released / "other.csv", index=False)
    table_of_people(600, seed=5).to_csv(released / "others.csv", index=False)
    for name in ("other.csv", "others.csv"):
        found = audit_of(released, "noisy.csv", ledger="people.ledger", data=name)
        assert found.verdict == "fails"
        assert "could NOT be recomputed" in found.checks[-1].sentence
    with pytest.raises(InputError, match="no such file"):
        audit_of(released, "noisy.csv", ledger="people.ledger", data="nowhere.csv")
    with pytest.raises(InputError, match="ledger must be given with --data"):
        audit_of(released, "noisy.csv", data="people.csv")


@pytest.mark.parametrize(
    ("mechanism", "domain", "epsilon"),
    [
        ("unary-encoding", Classes(("no", "yes")), 2.5),
        ("local-hashing", Classes(("no", "yes", "perhaps")), 2),
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
    assert found.verdict == "holds", found
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
    assert found.verdict == "holds" and "is the same" in found.checks[-1].sentence and found.secret


@pytest.mark.parametrize(("trust", "stages"), mostly_slow([("local", 1), ("local", 2), ("central", 1)], [("local", 1)]))
def test_a_fit_is_made_again_up_to_its_last_release(people: Path, trust: str, stages: int) -> None:
    model = "auto" if stages > 1 else "linear"
    changes = {"trust": trust, "delta": 0.0 if trust == "local" else 1e-6, "stages": stages, "model": model}
    asked = fit_request(**ASKED | changes)
    fit_file(asked, str(people / "people.csv"), ledger=str(people / "people.ledger"), out=str(people / "model"))
    before = (people / "people.ledger").read_bytes()
    asked = {"ledger": str(people / "people.ledger"), "data": str(people / "people.csv"), "render": render_report}
    found = audit_run(str(people / "model"), **asked)
    assert (people / "people.ledger").read_bytes() == before
    assert found.verdict == "holds", found.checks
    assert "the values that were stored" in found.checks[-2].sentence
    assert found.checks[-1].sentence.endswith("the model and its summary are the same.")
    assert found.kind == "fit" and not found.refuted
    assert trust == "central" or found.bound is not None


def test_an_online_run_is_played_again(people: Path) -> None:
    losses = pd.DataFrame(np.random.default_rng(0).random((200, 3)), columns=list("abc"))
    losses.to_csv(people / "losses.csv", index=False)
    run_online(
        people / "losses.csv",
        epsilon=1,
        out=people / "decisions.csv",
        ledger=people / "people.ledger",
        dataset="losses",
    )
    found = audit_of(people, "decisions.csv", ledger="people.ledger", data="losses.csv")
    assert found.verdict == "holds" and found.kind == "online run" and "is the same" in found.checks[-1].sentence
    losses.iloc[0, 0] = 1 - losses.iloc[0, 0]
    losses.to_csv(people / "other.csv", index=False)
    assert audit_of(people, "decisions.csv", ledger="people.ledger", data="other.csv").verdict == "fails"


def test_a_second_release_of_the_same_labels_is_counted(released: Path) -> None:
    account = LedgerFile(released / "people.ledger")
    account.change("bought", budget=Budget(epsilon=3))
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
        if place == ("mechanism",):  # no name of a mechanism
            with pytest.raises(InputError, match="is damaged"):
                audit_of(released, "edited.csv", ledger="people.ledger", data="people.csv")
            continue
        found = audit_of(released, "edited.csv", ledger="people.ledger", data="people.csv")
        assert found.verdict == "fails"
        assert "could NOT be recomputed" in found.checks[-1].sentence


@pytest.mark.parametrize(
    "asked",
    [
        {"mechanism": "bag-sum", "id_column": "id"},
        {"mechanism": "bag-sum", "bags": "team"},
        {"mechanism": "bag-sum", "bags": "random", "user_column": "who", "delta": "1e-6", "id_column": "id"},
        {"mechanism": "weighted-lba", "delta": "1e-6", "rows": 2, "id_column": "id"},
        {"mechanism": "noisy-weighted-llp", "delta": "1e-6", "noisy": 9, "weights": "gaussian", "bags": "team"},
    ],
)
def test_sums_over_bags_are_made_again(people: Path, asked: dict[str, Any]) -> None:
    """The request says how bags were made, whose users they are and what names records."""
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
    assert found.verdict == "holds" and found.checks[-1].sentence.endswith("every released value is the same.")
    assert found.bound is None and any("one output" in each for each in found.not_checked)
    table.assign(hours=(table["hours"] + (rows == 3)) % 41).to_csv(people / "other.csv", index=False)
    assert audit_of(people, "sums.csv", ledger="people.ledger", data="other.csv").verdict == "fails"


def test_a_release_that_protects_users_is_made_again(people: Path) -> None:
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
        user_column="who",
    )
    found = audit_of(people, "noisy.csv", ledger="people.ledger", data="owned.csv")
    assert found.verdict == "holds" and found.checks[-1].sentence.endswith("every released value is the same.")
    table.assign(who=np.arange(600) // 2).to_csv(people / "other.csv", index=False)
    assert audit_of(people, "noisy.csv", ledger="people.ledger", data="other.csv").verdict == "fails"


def test_a_release_in_place_with_ids_is_made_again(people: Path) -> None:
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
    assert audit_of(people, "noisy.csv", ledger="people.ledger", data="people.csv").verdict == "holds"


def test_a_run_on_some_columns_is_played_again(people: Path) -> None:
    """The request names them, in their order."""
    losses = pd.DataFrame(np.random.default_rng(0).random((200, 4)), columns=list("abcd"))
    losses.to_csv(people / "losses.csv", index=False)
    out, ledger = people / "decisions.csv", people / "people.ledger"
    experts = ("d", "a")
    run_online(people / "losses.csv", epsilon=1, experts=experts, out=out, ledger=ledger, dataset="losses")
    found = audit_of(people, "decisions.csv", ledger="people.ledger", data="losses.csv")
    assert found.verdict == "holds" and found.checks[-1].sentence.endswith("every released value is the same.")


def test_a_run_on_levels_of_zero_and_one_is_played_again(people: Path) -> None:
    """They could be losses, too."""
    losses = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (100, 3)), columns=list("abc"))
    losses.to_csv(people / "losses.csv", index=False)
    out, ledger = people / "decisions.csv", people / "people.ledger"
    run_online(people / "losses.csv", epsilon=1, levels=True, out=out, ledger=ledger, dataset="losses")
    found = audit_of(people, "decisions.csv", ledger="people.ledger", data="losses.csv")
    assert found.verdict == "holds" and found.checks[-1].sentence.endswith("every released value is the same.")


def test_a_killed_audit_leaves_a_folder_for_its_owner_alone(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(ledger: str, target: Path, *, values: bool) -> None:
        place = target.parent
        seen.append(place)
        assert place.stat().st_mode & 0o077 == 0
        raise InputError("stop")

    monkeypatch.setattr("labeldp.audit.rerun.copy_ledger", look)
    with pytest.raises(InputError, match="stop"):
        audit_of(released, "noisy.csv", ledger="people.ledger", data="people.csv")
    assert seen and not seen[0].exists()


def forge(folder: Path, **stated: Any) -> None:
    """Put raw labels in place of released ones, with a digest that fits and another certificate."""
    table = pd.read_csv(folder / "noisy.csv")
    table["bought"] = pd.read_csv(folder / "people.csv")["bought"]
    table.to_csv(folder / "noisy.csv", index=False)
    beside = folder / "noisy.csv.certificate.json"
    content = json.loads(beside.read_text())
    content |= {"digest": column_digest([table["bought"].tolist()]), "sha256": file_digest(folder / "noisy.csv")}
    content["certificate"] |= stated
    beside.write_text(json.dumps(content))


def test_raw_labels_without_a_charge_are_refused(released: Path) -> None:
    forge(released, entries=[])
    for files in ({}, {"ledger": "people.ledger"}, {"ledger": "people.ledger", "data": "people.csv"}):
        with pytest.raises(InputError, match=r"noisy\.csv lists no charge, and so certifies no release; do not rely"):
            audit_of(released, "noisy.csv", **files)


def test_raw_labels_under_two_genuine_charges_fail(released: Path) -> None:
    """What was asked gives one of them."""
    LedgerFile(released / "people.ledger").change("bought", budget=Budget(epsilon=3))
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
    account = LedgerFile(released / "people.ledger").dataset("bought")
    forge(released, **account.read().certificate_of([charge.id for charge in account.charges]).to_json())
    assert audit_of(released, "noisy.csv", ledger="people.ledger").verdict == "unverified"
    found = audit_of(released, "noisy.csv", ledger="people.ledger", data="people.csv")
    assert found.verdict == "fails" and "could NOT be recomputed" in found.checks[-1].sentence


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("published", "one noisy sum"),
        ("assumptions", []),
        ("trust", "CENTRAL"),
        ("randomness", "SYSTEM"),
        ("cohorts", ["first"]),
    ],
)
def test_every_field_of_a_certificate_is_compared_with_the_ledger(released: Path, field: str, value: Any) -> None:
    beside = released / "noisy.csv.certificate.json"
    content = json.loads(beside.read_text())
    content["certificate"][field] = value
    beside.write_text(json.dumps(content))
    found = audit_of(released, "noisy.csv", ledger="people.ledger")
    name = "conditions" if field == "assumptions" else field
    assert found.verdict == "fails"
    assert any(check.sentence.endswith(f"it states otherwise {name}.") for check in found.checks)


def test_a_certificate_that_states_another_unit_than_its_charges_is_damaged(released: Path) -> None:
    beside = released / "noisy.csv.certificate.json"
    content = json.loads(beside.read_text())
    content["certificate"]["neighbors"] = "ONE_USER"
    beside.write_text(json.dumps(content))
    with pytest.raises(InputError, match="is damaged"):
        audit_of(released, "noisy.csv", ledger="people.ledger")


def test_a_condition_that_no_ledger_has_is_refused_but_of_a_fit(released: Path) -> None:
    beside = released / "noisy.csv.certificate.json"
    content = json.loads(beside.read_text())
    content["certificate"]["assumptions"].append("nobody looks")
    beside.write_text(json.dumps(content))
    certificate = verify(str(released / "noisy.csv")).certificate
    ledger = str(released / "people.ledger")
    assert check_charges(certificate, ledger).holds is False
    fitted = check_charges(certificate, ledger, fit=True)
    assert fitted.holds is None and fitted.sentence.endswith("conditions that no ledger has: nobody looks.")


def test_columns_beside_the_released_one_are_compared_with_those_made_again(released: Path) -> None:
    """Ids in another order give labels to other people; whoever writes them can correct the digest."""
    table = pd.read_csv(released / "noisy.csv")
    table["id"] = table["id"].to_numpy()[::-1]
    table.to_csv(released / "noisy.csv", index=False)
    assert not verify(str(released / "noisy.csv")).holds
    beside = released / "noisy.csv.certificate.json"
    content = json.loads(beside.read_text()) | {"sha256": file_digest(released / "noisy.csv")}
    beside.write_text(json.dumps(content))
    assert verify(str(released / "noisy.csv")).holds
    found = audit_of(released, "noisy.csv", ledger="people.ledger", data="people.csv")
    assert found.verdict == "fails" and "NOT the same" in found.checks[-1].sentence


@pytest.fixture
def model(people: Path) -> Path:
    LedgerFile(people / "people.ledger").add("bought", Budget(epsilon=2))
    given = {"ledger": str(people / "people.ledger"), "out": str(people / "model"), "render": render_report}
    fit_file(fit_request(**ASKED), str(people / "people.csv"), **given)
    return people


def audit_of_model(folder: Path) -> RunAudit:
    asked = {"ledger": str(folder / "people.ledger"), "data": str(folder / "people.csv"), "render": render_report}
    return audit_run(str(folder / "model"), **asked)


def test_a_summary_that_says_less_than_its_certificate_fails(model: Path) -> None:
    place = model / "model" / "summary.json"
    content = json.loads(place.read_text())
    content["sentence"] = content["sentence"].replace("ε = 1, ", "ε = 0.1, ")
    place.write_text(json.dumps(content))
    beside = model / "model" / "certificate.json"
    certificate = json.loads(beside.read_text())
    certificate["files"]["summary.json"] = file_digest(place)
    beside.write_text(json.dumps(certificate))
    found = audit_of_model(model)
    assert found.verdict == "fails"
    assert any("does NOT say what its certificate says" in check.sentence for check in found.checks)


def test_a_request_that_found_the_release_of_another_is_not_called_its_cause(people: Path) -> None:
    ledger, data = str(people / "people.ledger"), str(people / "people.csv")
    for name in ("neighbors", "cells"):
        fit_file(fit_request(**ASKED | {"model": name}), data, ledger=ledger, out=str(people / name))
    assert len(LedgerFile(ledger).dataset("bought").charges) == 1
    said = {"neighbors": "equals the request in the ledger", "cells": "Another request caused its charges"}
    for name, words in said.items():
        found = audit_run(str(people / name), ledger=ledger)
        assert [words in check.sentence for check in found.checks].count(True) == 1, name


def test_a_model_that_was_learned_otherwise_is_unverified(model: Path) -> None:
    place, beside = model / "model" / "model.json", model / "model" / "certificate.json"
    place.write_text(place.read_text().replace("south", "West", 1))
    certificate = json.loads(beside.read_text())
    certificate["files"]["model.json"] = file_digest(place)
    beside.write_text(json.dumps(certificate))
    found = audit_of_model(model)
    assert found.verdict == "unverified"
    assert found.checks[-1].sentence.startswith("Unverified: learned again, model.json came out otherwise")


def test_a_model_still_holds_when_the_ledger_went_on(model: Path) -> None:
    fit_file(
        fit_request(**ASKED | {"epsilon": 0.5}),
        str(model / "people.csv"),
        ledger=str(model / "people.ledger"),
        out=str(model / "more"),
    )
    assert audit_of_model(model).verdict == "holds"
    place = model / "model" / "summary.json"
    content = json.loads(place.read_text())
    assert content["budget"]["left"]["epsilon"] == 1
    content["budget"]["left"]["epsilon"] = 0.75  # what it never was
    place.write_text(json.dumps(content))
    (model / "model" / "report.html").write_text(render_report(FitSummary.from_json(content)))
    beside = model / "model" / "certificate.json"
    certificate = json.loads(beside.read_text())
    for name in ("summary.json", "report.html"):
        certificate["files"][name] = file_digest(model / "model" / name)
    beside.write_text(json.dumps(certificate))
    assert audit_of_model(model).verdict == "unverified"
