"""Requests: what is written is read again, what a stranger wrote is refused, and the digest names a run."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labeldp.privacy import (
    InputError,
    NamedFile,
    Request,
    Scope,
    Source,
    Unit,
)
from labeldp.privacy.request import number_text

CLASSES = {"classes": ["no", "yes"]}
REQUESTS = {
    "release": Request(
        "release", "randomized-response", Scope.parse("survey/income"), Source("people.csv", "income", ids="id"), "1",
        domain=CLASSES, options={"in_place": True}, version="1.1.0.dev0",
    ),
    "sums": Request(
        "aggregate", "bag-sum", Scope("bags", cohort="May", unit=Unit.ONE_USER), Source("people", "hours", users="who"),
        "1/3", "1e-06", {"low": "0", "high": "40", "grid": 41, "clip": True}, {"size": np.int64(10), "bags": "team"},
    ),
    "fit": Request(
        "fit", "linear", Scope("bought", revision="new"), Source("p.csv", "bought", features=("age", "job"), rows=40,
        digest="0" * 64), "1", domain=CLASSES, options={"trust": "local", "stages": 1, "evaluation": 0.2}, cap=3,
        files={"test": NamedFile("public.csv", "1" * 64)},
    ),
    "online": Request(
        "online", "auto", Scope("losses"), Source("losses.csv", rows=40), "1", "1e-06",
        options={"levels": False, "loss_bits": 8, "experts": ["d", "a"], "horizon": None},
    ),
    "question": Request(
        "sums", "auc", Scope("sold"), Source("people.csv", "sold", ids="id"), "1", domain=CLASSES,
        options={"probabilities": "score", "why": "of last year"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_read_as_it_was_written(name: str) -> None:
    request = REQUESTS[name]
    again = Request.from_json(json.loads(json.dumps(request.to_json())))
    assert again == request and again.digest == request.digest and again.command() == request.command()


def test_the_digest_leaves_out_version_and_file_names_alone() -> None:
    request = REQUESTS["fit"]
    others = replace(
        request,
        source=replace(request.source, name="moved.csv"),
        files={"test": NamedFile("other.csv", "1" * 64)},
        version="2.0",
    )
    assert others.digest == request.digest and others != request
    changed = [
        replace(request, kind="release"),
        replace(request, does="cells"),
        replace(request, scope=replace(request.scope, dataset="sold")),
        replace(request, source=replace(request.source, digest="2" * 64)),
        replace(request, source=replace(request.source, features=("age,job",))),
        replace(request, epsilon="2"),
        replace(request, delta="1e-06"),
        replace(request, domain={"classes": ["yes", "no"]}),
        replace(request, options={**request.options, "stages": 2}),
        replace(request, cap=4),
        replace(request, files={"test": NamedFile("public.csv", "2" * 64)}),
    ]
    assert len({request.digest, *(other.digest for other in changed)}) == 1 + len(changed)


COMMANDS = {
    "release": "labeldp release people.csv --label income --classes no,yes --epsilon 1 --ledger LEDGER "
    "--dataset survey/income --id id --out OUT --mechanism randomized-response --in-place",
    "sums": "labeldp release people --label hours --range 0,40 --grid 41 --clip --epsilon 1/3 --ledger LEDGER "
    "--dataset bags --delta 1e-06 --user who --out OUT --mechanism bag-sum --size 10 --bags team --cohort May",
    "fit": "labeldp fit p.csv --label bought --classes no,yes --epsilon 1 --ledger LEDGER --dataset bought "
    "--per-user 3 --out OUT --model linear --trust local --stages 1 --evaluation 0.2 --features age,job "
    "--revision new --test public.csv",
    "online": "labeldp online run losses.csv --epsilon 1 --ledger LEDGER --dataset losses --delta 1e-06 --out OUT "
    "--method auto --loss-bits 8 --experts d,a",
    "question": "labeldp estimate evaluate people.csv --label sold --classes no,yes --epsilon 1 --ledger LEDGER "
    "--dataset sold --id id --sums OUT --score auc --trust central --probabilities score --why 'of last year'",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_command_asks_the_same_again(name: str) -> None:
    assert REQUESTS[name].command() == COMMANDS[name]


def test_a_command_names_a_server_or_a_choice_in_place_of_what_they_decide() -> None:
    fit = REQUESTS["fit"]
    chosen = replace(fit, does="auto", options={"trust": "local", "chosen": "local linear"})
    assert chosen.command().endswith("--out OUT --model auto --trust local --features age,job --revision new --test "
                                     "public.csv")  # fmt: skip
    remote = replace(fit, source=replace(fit.source, name="")).command("ldp", curator="unix:door", out="model")
    assert remote.startswith("ldp fit --epsilon 1 --curator unix:door --dataset bought --per-user 3 --out model")


def _put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in path[:-1]:
            content = content.setdefault(key, {})
        content[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _put("kind", value="train"),
        _put("does", value="os.path:join"),
        _put("does", value="labeldp.fit"),
        _put("more", value=1),
        _put("scope", value="bought"),
        _put("scope", "dataset", value=3),
        _put("scope", "unit", value="house"),
        _put("scope", "unit", value="ONE_USER"),
        _put("source", "name", value="../people.csv"),
        _put("source", "name", value="/etc/passwd"),
        _put("source", "rows", value=True),
        _put("source", "rows", value=-1),
        _put("source", "digest", value="12"),
        _put("source", "features", value=[1]),
        _put("epsilon", value=1.0),
        _put("epsilon", value="1e999999999"),
        _put("epsilon", value="-1"),
        _put("delta", value="nan"),
        _put("domain", value=["no"]),
        _put("domain", value={"classes": [["no"]]}),
        _put("options", value={"trust": {"a": 1}}),
        _put("options", value={"__class__": "x"}),
        _put("options", value={"stages": float("inf")}),
        _put("cap", value="3"),
        _put("files", value={"test": "public.csv"}),
        _put("files", value={"test": {"name": "a/b", "digest": ""}}),
        _put("version", value=1),
    ],
)
def test_what_a_stranger_wrote_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    content = REQUESTS["fit"].to_json()
    Request.from_json(content)
    change(content)
    with pytest.raises(InputError, match=r"^this is not a request of labeldp$"):
        Request.from_json(content)


@pytest.mark.parametrize("value", [None, 3, "fit", [], {}, {"kind": "fit"}])
def test_what_is_no_request_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="not a request"):
        Request.from_json(value)


def test_numbers_are_written_exactly() -> None:
    assert [number_text(value, "epsilon") for value in (1, 1.0, "1.0", "1e0")] == ["1"] * 4
    assert number_text(0.1, "epsilon") == "0.1" and number_text("1e-6", "delta") == "1e-06"
    assert number_text(Fraction(1, 3), "epsilon") == "1/3"
    with pytest.raises(InputError, match="epsilon must be a number"):
        number_text("x", "epsilon")


def test_a_scope_is_named_as_a_user_wrote_it() -> None:
    for text in ("survey", "survey/income", "/x", "x/"):
        assert Scope.parse(text).name == text
    assert Scope.parse("survey/income", revision="May").to_json() == {
        "dataset": "survey", "column": "income", "revision": "May", "unit": "ONE_LABEL",
    }  # fmt: skip
    with pytest.raises(InputError, match="must be a printable name"):
        Scope.parse("survey", cohort="a\x1fb")
