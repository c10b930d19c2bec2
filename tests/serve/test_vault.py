"""The vault: policy, shares, the log, and what it refuses."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.serve import Config, read_log
from labeldp.serve.log import LOG, LogError
from labeldp.serve.vault import MAX_MECHANISMS, MAX_STEPS, RETRY, Vault
from labeldp.serve.wire import described, described_steps, packed, unpacked, unpacked_rows
from serve.server import CLASSES, TOKENS, Server, labels

DOMAIN = ldp.Classes(CLASSES)


def vault(folder: Path, values: Any = None, **more: Any) -> Vault:
    server = Server(folder, labels() if values is None else values, **more)
    return Vault(Config.read(server.folder / "serve.toml"))


def again(folder: Path) -> Vault:
    """The vault of the same folder, in another process."""
    return Vault(Config.read(folder / "serve.toml"))


def ask(vault: Vault, call: str, who: str = "ana", **content: Any) -> tuple[int, dict[str, Any]]:
    given = {"dataset": "people", **content}
    status, answer = vault.answer({"call": call, "token": TOKENS[who]}, json.dumps(given).encode())
    return status, json.loads(json.dumps(answer))


def release(vault: Vault, epsilon: float = 1.0, who: str = "ana", **more: Any) -> tuple[int, dict[str, Any]]:
    mechanism = ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon)
    return ask(vault, "release", who, mechanism=described(mechanism), **more)


def response(epsilon: float) -> ldp.RandomizedResponse:
    return ldp.RandomizedResponse(domain=DOMAIN, epsilon=epsilon)


FREE = {"kind": "discrete", "losses": ["0"], "probabilities": ["1"], "times": 1}
"""The loss of a release that tells nothing, as a certificate has it."""

LOSSES: dict[str, Any] = {
    "masses that sum to almost nothing": {**FREE, "probabilities": ["1/1000000000000"]},
    "a negative loss": {**FREE, "losses": ["-40", "0"], "probabilities": ["1", "0"]},
    "a loss of nothing": FREE,
    "a cheap loss": {"kind": "gaussian", "mu": "0x1p-100", "times": 1},
    "many times": {"kind": "response", "epsilon": "1", "classes": 2, "times": 10**12},
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_no_plan_of_a_stranger_holds_a_loss(tmp_path: Path, loss: Any) -> None:
    """It would be paid with the plan: a release at epsilon = 20 for nothing."""
    one = vault(tmp_path / "s", budget="epsilon = 0.1\ndelta = 1e-6")
    plan = described_steps({"a": response(20)})
    asked = (
        {"steps": {"a": response(20).privacy_loss().to_json(), "b": [[loss]]}},
        {"steps": {"a": 0, "b": [[loss]]}, "mechanisms": plan["mechanisms"]},
        {"steps": {"a": 0, "b": 1}, "mechanisms": [*plan["mechanisms"], loss]},
        {"steps": {"a": 0, "b": 1}, "mechanisms": [*plan["mechanisms"], {**plan["mechanisms"][0], "loss": [[loss]]}]},
        {"steps": {"a": 0}, "mechanisms": [{**plan["mechanisms"][0], "loss": [[loss]], "epsilon": 1e-9}]},
    )
    for call, content in ((call, content) for call in ("require", "released") for content in asked):
        status, answer = ask(one, call, run="r", **content)
        assert (status, call) in ((400, call), (403, "require"), (200, "released")), answer
        assert status != 200 or not any(answer["released"].values())
    assert ask(one, "release", run="r", step="a", mechanism=plan["mechanisms"][0])[0] == 403
    assert ask(one, "budget")[1]["used"] == "0"
    one.close()


def test_the_size_of_a_plan_is_limited(tmp_path: Path) -> None:
    one = vault(tmp_path / "s", budget="epsilon = 900\ndelta = 1e-6")
    mechanisms = [response(1 + number / 1000) for number in range(MAX_MECHANISMS + 1)]
    many = {f"{number}": mechanisms[0] for number in range(MAX_STEPS + 1)}
    full = {f"{number}": mechanisms[number % MAX_MECHANISMS] for number in range(MAX_STEPS)}
    assert ask(one, "require", **described_steps(full))[0] == 200
    one_more = described_steps({f"{number}": each for number, each in enumerate(mechanisms)})
    for content, sentence in (
        (described_steps(many), "steps must be from 1 to 256"),
        (one_more, "mechanisms must be a list of 1 to 16 different ones"),
        ({**described_steps(full), "mechanisms": []}, "mechanisms must be a list of 1 to 16"),
        ({**described_steps(full), "steps": {"a": 16}}, "steps must have the number of a mechanism each, from 0 on"),
        ({**described_steps(full), "steps": {"a": True}}, "steps must have the number of a mechanism each"),
        ({**described_steps(full), "steps": {"a": -1}}, "steps must have the number of a mechanism each"),
    ):
        status, answer = ask(one, "require", **content)
        assert status == 400 and sentence in answer["message"]
    one.close()


@pytest.mark.guarantee("labeldp.serve:Vault", "charged_first")
def test_nothing_leaves_but_by_a_mechanism_that_the_policy_allows_charged_first(tmp_path: Path) -> None:
    one = vault(tmp_path / "s", more='mechanisms = ["RandomizedResponse"]', budget="epsilon = 4")
    status, answer = release(one, 1.5, reason="a first look")
    ledger = LedgerFile(tmp_path / "s" / "people.db").dataset("people")
    [entry] = ledger.read().entries
    assert (status, entry.analyst, entry.certificate.to_json()) == (200, "ana", answer["certificate"])
    line = read_log(tmp_path / "s" / "state")[-1]
    assert (line["charge"], line["who"], line["reason"]) == (entry.certificate.entries[0].id, "ana", "a first look")
    unary = described(ldp.UnaryEncoding(domain=DOMAIN, epsilon=0.1))
    assert ask(one, "release", mechanism=unary)[:1] == (403,)
    assert release(one, 0.6)[1]["error"] == "budget"
    assert len(LedgerFile(tmp_path / "s" / "people.db").dataset("people").charges) == 1
    one.close()


@pytest.mark.guarantee("labeldp.serve:Vault", "no_label")
def test_what_is_refused_and_how_depends_on_no_label_and_on_nobody_elses_releases(tmp_path: Path) -> None:
    told = []
    for name, values, busy in (("a", labels(seed=1), True), ("b", labels(seed=2), False)):
        one = vault(tmp_path / name, values, budget="epsilon = 4")
        if busy:
            assert release(one, 2, "ben")[0] == 200
        bad = described(ldp.RandomizedResponse(domain=ldp.Classes(4), epsilon=1))
        prior = ldp.Public(np.full((299, 3), 1 / 3), why="uniform")
        short = described(ldp.mechanisms.RandomizedResponseWithPrior(domain=DOMAIN, epsilon=1, prior=prior))
        steps = described_steps({"a": response(1.5), "b": response(1)})
        told.append(
            [
                release(one, 1)[0],
                release(one, 1.1),
                ask(one, "require", **steps),
                ask(one, "budget"),
                ask(one, "release", mechanism=bad),
                ask(one, "release", mechanism=short),
                ask(one, "datasets"),
                ask(one, "released", **described_steps({"a": response(1)})),
            ]
        )
        one.close()
    assert told[0] == told[1]
    assert [each[0] if isinstance(each, tuple) else each for each in told[0]] == [
        200,
        403,
        403,
        200,
        400,
        400,
        200,
        200,
    ]


def test_the_same_request_is_the_same_release_after_a_crash_too(tmp_path: Path) -> None:
    one = vault(tmp_path / "s")
    first, second, other = release(one), release(one), release(one, who="ben")
    one.log.close()  # killed: no line of a stop
    later = release(again(tmp_path / "s"))
    assert first == second == later
    assert first != other
    assert len(LedgerFile(tmp_path / "s" / "people.db").dataset("people").charges) == 2


def test_a_token_may_change_and_the_releases_stay(tmp_path: Path) -> None:
    one = vault(tmp_path / "s")
    first = release(one)
    one.close()
    file = tmp_path / "s" / "serve.toml"
    Server(tmp_path / "t", labels())  # with other salts
    file.write_text((tmp_path / "t" / "serve.toml").read_text())
    assert release(again(tmp_path / "s")) == first


def test_two_analysts_who_split_a_budget_have_each_their_own(tmp_path: Path) -> None:
    one = vault(tmp_path / "s", budget="epsilon = 4", shares={"ana": 0.25, "ben": 0.5})
    assert [release(one, 0.5 + number / 100, "ben")[0] for number in range(5)] == [200, 200, 200, 403, 403]
    assert [release(one, 0.5 - number / 100)[0] for number in range(3)] == [200, 200, 403]
    assert ask(one, "budget")[1]["used"] == "99/100"


def test_a_dataset_that_one_has_no_share_of_is_not_there(tmp_path: Path) -> None:
    one = vault(tmp_path / "s", shares={"ana": 1})
    assert release(one, who="ben") == ask(one, "release", "ben", mechanism={}) and release(one, who="ben")[0] == 404
    assert ask(one, "release", "ben", dataset="nobody")[0] == 404
    assert ask(one, "datasets", "ben")[1]["datasets"] == []


def test_nobody_gets_the_certificate_of_anothers_release_and_nothing_rests_on_it(tmp_path: Path) -> None:
    one = vault(tmp_path / "s")
    charge = release(one)[1]["certificate"]["entries"][0]["id"]
    assert ask(one, "certificate", charge=charge)[0] == 200
    assert ask(one, "certificate", "ben", charge=charge)[0] == 400
    groups = ldp.Public(np.zeros(300, dtype=int), why="all")
    content = described(ldp.LaplaceHistogram(domain=DOMAIN, epsilon=1, groups=groups))
    content["inputs"][0] = {"name": "groups", "why": "", "releases": [[charge]]}
    assert ask(one, "release", "ben", mechanism=content)[0] == 400
    status, answer = ask(one, "release", mechanism=content)
    assert status == 200 and charge in [each["id"] for each in answer["certificate"]["entries"]]


def test_after_admission_there_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = vault(tmp_path / "s")
    for error in (
        ValueError("yes"),
        MemoryError(),
        ldp.privacy.InputError("a label: yes"),
        ldp.privacy.LedgerError("yes"),
        KeyError(1),
    ):
        with monkeypatch.context() as patch:

            def fail(*args: Any, error: Exception = error, **more: Any) -> Any:
                raise error

            patch.setattr("labeldp.mechanisms.RandomizedResponse.randomize", fail)
            assert release(one) == RETRY
    assert release(one)[0] == 200
    assert len(LedgerFile(tmp_path / "s" / "people.db").dataset("people").charges) == 1


def test_a_ledger_that_lacks_a_charge_of_the_log_is_refused(tmp_path: Path) -> None:
    one, ledger = vault(tmp_path / "s"), tmp_path / "s" / "people.db"
    release(one)
    shutil.copy(ledger, tmp_path / "backup.db")
    release(one, 2)
    one.close()
    newest = ledger.read_bytes()
    ledger.write_bytes((tmp_path / "backup.db").read_bytes())
    with pytest.raises(ldp.privacy.LedgerError, match="older copy"):
        again(tmp_path / "s")
    ledger.write_bytes(newest)
    again(tmp_path / "s").close()


def test_a_charge_that_a_crash_kept_from_the_log_is_written_there_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = vault(tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.serve.log.Log.append", lambda *args: pytest.fail("killed here"))
        with pytest.raises(pytest.fail.Exception):
            release(one)
    one.log.close()
    later = again(tmp_path / "s")
    [line] = [each for each in read_log(tmp_path / "s" / "state") if each["what"] == "recovered"]
    status, answer = release(later)
    assert (status, answer["certificate"]["entries"][0]["id"]) == (200, line["charge"])


def test_what_cannot_be_logged_is_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, whole = vault(tmp_path / "s"), os.write
    for write in (lambda file, line: whole(file, line[:30]), lambda file, line: 1 / 0):

        def broken(file: int, line: bytes, write: Any = write) -> int:
            try:
                return int(write(file, line))
            except ZeroDivisionError:
                raise OSError(28, "No space left on device") from None

        with monkeypatch.context() as patch:
            patch.setattr("os.write", broken)
            with pytest.raises(LogError, match="log could not be written"):
                release(one)
        one.log.close()
        one = again(tmp_path / "s")
    assert release(one)[0] == 200
    assert [each["what"] for each in read_log(tmp_path / "s" / "state")].count("recovered") == 1
    assert len(LedgerFile(tmp_path / "s" / "people.db").dataset("people").charges) == 1


def test_a_log_that_was_edited_is_refused(tmp_path: Path) -> None:
    one = vault(tmp_path / "s")
    for epsilon in (1, 2, 3):
        release(one, epsilon)
    one.close()
    file = tmp_path / "s" / "state" / LOG
    whole = file.read_text()
    lines = whole.splitlines(keepends=True)
    edits: list[Callable[[], str]] = [
        lambda: whole.replace('"who": "ana"', '"who": "ben"', 1),
        lambda: "".join(lines[:1] + lines[2:]),
        lambda: "".join([lines[1], lines[0], *lines[2:]]),
        lambda: "".join([*lines, lines[-1]]),
        lambda: "x" + whole,
        lambda: whole.replace('"who": "ana"', '"who": "ben", "who": "ana"', 1),
        lambda: whole.replace(", ", ",", 1),
    ]
    for edit in edits:
        file.write_text(edit())
        with pytest.raises(ldp.privacy.LedgerError, match="log"):
            again(tmp_path / "s")
    file.write_text(whole + '{"n": 99, "torn')  # a crash in the middle of a line that nobody was answered for
    again(tmp_path / "s").close()


def test_a_ledger_that_is_replaced_while_the_server_runs_ends_it(tmp_path: Path) -> None:
    one, file = vault(tmp_path / "s"), tmp_path / "s" / "people.db"
    release(one)
    older = file.read_bytes()
    release(one, 2)
    file.write_bytes(older)
    with pytest.raises(LogError, match="lacks a charge that the log has"):
        release(one, 3)
    assert len(LedgerFile(file).dataset("people").charges) == 1
    one.log.close()
    with pytest.raises(ldp.privacy.LedgerError, match="lacks a charge that the log has"):
        again(tmp_path / "s")


def test_a_split_of_more_records_than_there_are_is_refused_before_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = vault(tmp_path / "s")
    splits = [{"parts": packed(np.zeros(301, dtype=np.int8)), "part": 0, "why": "so"}]
    steps = described_steps({"a": response(1)})
    with monkeypatch.context() as patch:
        patch.setattr("labeldp.curator.Curator.split", None)
        status, answer = ask(one, "require", **steps, splits=splits)
    assert status == 400 and "parts must be one integer" in answer["message"]


def test_neither_log_nor_answers_hold_a_label_an_id_or_a_key(tmp_path: Path) -> None:
    planted = "planted-label-8f3a"
    values = [planted if row % 3 else "no" for row in range(300)]
    one = vault(tmp_path / "s", values, domain=f'classes = ["no", "{planted}"]')
    domain = ldp.Classes(("no", planted))
    answer = ask(one, "release", mechanism=described(ldp.RandomizedResponse(domain=domain, epsilon=1)))
    one.close()
    log = (tmp_path / "s" / "state" / LOG).read_text()
    assert planted not in log and "100" not in json.dumps(answer[1]["value"])
    secret = LedgerFile(tmp_path / "s" / "people.db").dataset("people")._secret
    assert secret.hex() not in log and json.dumps(answer).find(secret.hex()) < 0


def test_reasons_are_escaped_and_bounded(tmp_path: Path) -> None:
    one = vault(tmp_path / "s")
    assert release(one, reason='"}\\')[0] == 200
    assert [line["what"] for line in read_log(tmp_path / "s" / "state")] == ["start", "release"]
    assert release(one, reason="a\nb")[0] == release(one, reason="a" * 1001)[0] == 400


def test_labels_outside_of_the_domain_and_other_labels_keep_it_from_starting(tmp_path: Path) -> None:
    with pytest.raises(ldp.privacy.DomainError):
        vault(tmp_path / "a", ["no", "perhaps"] * 10)
    one = vault(tmp_path / "b")
    release(one)
    one.close()
    Server(tmp_path / "b", labels(seed=5))
    with pytest.raises(ldp.privacy.LedgerError, match="not the labels"):
        again(tmp_path / "b")


def test_another_budget_or_smaller_shares_keep_it_from_starting(tmp_path: Path) -> None:
    one = vault(tmp_path / "s", budget="epsilon = 4")
    release(one, 2)
    one.close()
    Server(tmp_path / "s", labels(), budget="epsilon = 5")
    with pytest.raises(ldp.privacy.LedgerError, match="budget already"):
        again(tmp_path / "s")
    Server(tmp_path / "s", labels(), budget="epsilon = 4", shares={"ana": 0.4})
    with pytest.raises(ldp.privacy.LedgerError, match="a share is never divided again"):
        again(tmp_path / "s")


@pytest.mark.parametrize(
    "content",
    [
        {"splits": {}},
        {"splits": [{}] * 5},
        {"splits": [{"parts": packed(np.zeros(300, dtype=int)), "part": 1, "why": "so"}]},
        {"splits": [{"parts": packed(np.zeros(299, dtype=int)), "part": 0, "why": "so"}]},
        {"splits": [{"parts": packed(np.arange(300) * 9), "part": 0, "why": "so"}]},
        {"splits": [{"parts": packed(np.zeros(300)), "part": 0, "why": "so"}]},
        {"splits": [{"parts": packed(np.zeros(300, dtype=int)), "part": True, "why": "so"}]},
        {"splits": [{"parts": packed(-np.ones(300, dtype=int)), "part": 0, "why": "so"}]},
        {"mechanism": []},
        {"run": 3},
        {"step": ["a"]},
        {"reason": {}},
    ],
)
def test_requests_of_another_form_are_refused_and_charge_nothing(tmp_path: Path, content: Any) -> None:
    one = vault(tmp_path / "s")
    assert release(one, **content)[0] == 400 if "mechanism" not in content else ask(one, "release", **content)[0] == 400
    assert LedgerFile(tmp_path / "s" / "people.db").dataset("people").charges == ()


def test_parts_of_a_split_are_charged_in_parallel(tmp_path: Path) -> None:
    one = vault(tmp_path / "s", budget="epsilon = 2")
    parts = packed(np.arange(300) % 2)
    values = []
    for part in (0, 1):
        status, answer = release(one, 1, splits=[{"parts": parts, "part": part, "why": "rows alternate"}])
        assert status == 200
        values.append(unpacked(answer["value"], "value"))
    assert [len(each) for each in values] == [150, 150]
    assert ask(one, "budget")[1]["used"] == "1"


def test_a_fork_of_the_vault_answers_nobody(tmp_path: Path) -> None:
    one = vault(tmp_path / "s")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(release(one)[0]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"400"
    assert LedgerFile(tmp_path / "s" / "people.db").dataset("people").charges == ()
    os.close(read), os.close(write)
    assert release(one)[0] == 200


def test_an_answer_leaves_at_a_multiple_of_the_quantum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, clock, slept = vault(tmp_path / "s", limits="quantum = 0.5\ncells = 1000000"), [0.0], []
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", slept.append)
    for taken, wait in ((0.1, 0.4), (0.49, 0.01), (0.7, 0.3), (1.2, 0.3)):
        clock[0] = 100 + taken
        one._wait(100.0, 5)
        assert slept.pop() == pytest.approx(wait)
    clock[0] = 100.1
    one._wait(100.0, 2_500_000)
    assert slept.pop() == pytest.approx(1.4)
    assert one.late == 2


def test_features_are_public_columns_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labeldp.serve.vault.PAGE", 1000)
    one = vault(tmp_path / "s", more='features = ["day"]')
    seen: list[float] = []
    while len(seen) < 300:
        status, answer = ask(one, "features", start=len(seen))
        assert status == 200 and (answer["records"], answer["start"]) == (300, len(seen))
        rows = unpacked_rows(answer["arrow"])
        assert rows.column_names == ["day"] and 0 < rows.num_rows < 300
        seen += rows.column("day").to_pylist()
    assert seen == [row % 7 for row in range(300)]  # numbers of a CSV file, and no texts
    for start in (-1, 300, 1.5, "0", True, None):
        assert ask(one, "features", start=start)[0] == 400
    assert not one._datasets["people"].charges
    one.close()


def test_labels_that_cannot_be_read_count_as_a_rejection(tmp_path: Path) -> None:
    with pytest.raises(ldp.privacy.UnreadableRows):
        vault(tmp_path, ["no", "a\0b"] * 10)
    assert LedgerFile(tmp_path / "people.db").dataset("people").read().domains[0].refused == 1
