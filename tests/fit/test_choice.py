"""The rule of advice: its formula by hand, its order, what it refuses and what would help."""

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import labeldp as ldp
from labeldp.fit import Command, Expected, advise
from labeldp.fit.choice import ALIKE, CURVES, LEAST_RECORDS, SOURCE, WAYS, WIDEST, LearningCurve, Way, expected, rounded
from labeldp.learners import LEARNERS
from labeldp.privacy import InputError, Trust

TWO, NUMBERS = ldp.Classes(("no", "yes")), ldp.Interval(0, 100)
DOMAINS = {"two classes": TWO, "classes": ldp.Classes(5), "numbers": NUMBERS}


def test_labels_with_noise_are_worth_fewer_without() -> None:
    """Records n / (1 + v), with the variance of a debiased answer or of a sum beside that of the labels."""
    local, central = Way("local", "a", "", {"classes": 1.0}, {}), Way("central", "b", "", {"classes": 50.0}, {})
    keep = ldp.RandomizedResponse(domain=TWO, epsilon=1).keep_probability
    assert local.left(1000, TWO, 1.0) == pytest.approx(1000 * (2 * keep - 1) ** 2)
    assert local.left(1000, TWO, 1.0) == pytest.approx(1000 / (1 + 1 / math.sinh(0.5) ** 2))
    assert central.left(1000, TWO, 0.5) == pytest.approx(1000 / (1 + 50 / 250))
    assert local.left(10**9, TWO, 1000.0) == pytest.approx(10**9) and local.left(1, TWO, 1e-300) == 0


def test_the_loss_is_what_is_lacking_to_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = LearningCurve(points=80, half=100, power=1, below=0.5, above=2)
    monkeypatch.setattr("labeldp.fit.choice.CURVES", {"classes": curve, "numbers": curve})
    way = replace(WAYS[0], noise={"classes": 1.0, "numbers": 1.0}, given_up={"classes": 0.0, "numbers": 0.25})
    assert curve.share(300, TWO) == curve.share(300, NUMBERS) == pytest.approx(0.75)
    assert curve.share(300, ldp.Classes(4)) == pytest.approx(0.5)
    epsilon = 2 * math.asinh(math.sqrt(1 / 2))  # of 300 labels a third is left
    loss = expected(way, 300, TWO, epsilon)
    assert loss.score == "AUC" and loss.value == pytest.approx(80 / 2 * (0.75 - 0.5))
    assert (loss.low, loss.high) == pytest.approx((loss.value - 0.5 * 11, loss.value + 2 * 11))
    error = expected(way, 300, NUMBERS, epsilon)
    assert error.score == "RMSE" and error.value == pytest.approx(80 * (0.75 - 0.75 * 0.5))
    assert expected(way, 300, TWO, 1000.0).value == pytest.approx(0)


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("trust", ["local", "central"])
def test_the_best_comes_first_and_is_a_command(kind: str, trust: str) -> None:
    advice = advise(200_000, 12, DOMAINS[kind], "0.5", "1e-6", trust, Command("people.csv", "bought", ("--id", "id")))
    ranks = [option.expected.value - ALIKE * (option.settings["trust"] == "local") for option in advice.options]
    assert ranks == sorted(ranks) and advice.best is advice.options[0]
    scores = {"two classes": "AUC", "classes": "accuracy", "numbers": "RMSE"}
    assert {option.expected.score for option in advice.options} == {scores[kind]}
    for option in advice.options:
        assert option.settings["model"] in LEARNERS and option.method == "{trust} {model}".format(**option.settings)
        assert option.settings["trust"] == "local" or trust == "central"
        words = option.command.split()
        assert words[:3] == ["labeldp", "fit", "people.csv"] and words[words.index("--id") + 1] == "id"
        assert words[words.index("--trust") + 1] == option.settings["trust"]
        assert ("--delta" in words) == (option.method == "central linear") == ("delta" in option.settings)
        assert option.why.endswith(".") and option.source == SOURCE
    assert len({option.method for option in advice.options}) == len(advice.options) >= 1
    assert advice == advise(
        200_000, 12, DOMAINS[kind], 0.5, 1e-6, Trust[trust.upper()], Command("people.csv", "bought", ("--id", "id"))
    )


def test_measured_time_never_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def clock() -> float:
        raise AssertionError("a choice asked what time it is")

    advice = advise(5000, 5, TWO, 1, 1e-6, "central")
    for name in ("time", "perf_counter", "process_time", "monotonic"):
        monkeypatch.setattr(time, name, clock)
    assert advise(5000, 5, TWO, 1, 1e-6, "central") == advice


def test_who_may_see_labels_may_also_randomize_them() -> None:
    local, central = (advise(5000, 5, TWO, 1, 0, trust).options for trust in ("local", "central"))
    assert {each.method for each in local} < {each.method for each in central}
    assert all("delta" not in each.settings for each in central), "no delta was given"


def test_where_two_are_alike_the_one_that_trusts_nobody_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    curve, nothing = LearningCurve(points=100, half=10, power=1, below=0, above=0), {"classes": 0.0}
    monkeypatch.setattr("labeldp.fit.choice.CURVES", {"classes": curve})
    cells = Way("central", "cells", "", nothing, nothing)
    for given_up, first in ((0.005, "local mixture"), (0.02, "central cells")):
        local = Way("local", "mixture", "", nothing, {"classes": given_up})
        monkeypatch.setattr("labeldp.fit.choice.WAYS", (local, cells))
        assert advise(10**6, 5, TWO, 5, 0, "central").best.method == first


def test_a_linear_model_of_categories_gives_nothing_up() -> None:
    """It has a term of each category; without a delta its noise is larger, and nothing changes."""

    def best(categories: int, epsilon: float, delta: float = 1e-6, domain: Any = TWO) -> str:
        return advise(4000, 9, domain, epsilon, delta, "central", categories=categories).best.method

    assert [best(5, epsilon) for epsilon in (0.5, 1, 2)] == ["central linear", "central linear", "local mixture"]
    assert [best(4, epsilon) for epsilon in (0.5, 1, 2)] == ["central cells", "local mixture", "local mixture"]
    assert best(9, 0.5, 0.0) == best(0, 0.5, 0.0) and best(9, 1, domain=NUMBERS) == best(0, 1, domain=NUMBERS)
    with pytest.raises(InputError, match="categories"):
        advise(4000, 9, TWO, 1, 1e-6, categories=-1)


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("trust", ["local", "central"])
def test_more_records_or_more_epsilon_never_do_harm(kind: str, trust: str) -> None:
    domain = DOMAINS[kind]
    for sizes, epsilons in [((100, 1000, 10**5, 10**7), (1.0,)), ((20_000,), (0.01, 0.1, 1.0, 10.0))]:
        cases = [(size, epsilon) for size in sizes for epsilon in epsilons]
        for way in WAYS:
            shares = [way.share(CURVES[domain.target], size, domain, epsilon) for size, epsilon in cases]
            assert shares == sorted(shares)
        known = [bool(advise(size, 5, domain, epsilon, 0, trust).options) for size, epsilon in cases]
        assert known == sorted(known) and known[-1]


def test_advice_is_json() -> None:
    advice = advise(5000, 7, TWO, 1, 1e-6, "central")
    found = json.loads(json.dumps(advice.to_json(), allow_nan=False))
    assert set(found) == {"version", "records", "dimension", "options", "remedy", "rehearsed"} and found["version"] == 1
    assert (found["records"], found["dimension"], found["remedy"], found["rehearsed"]) == (5000, 7, "", 0)
    for option in found["options"]:
        assert list(option) == ["method", "settings", "expected", "why", "source", "command"]
        assert set(option["expected"]) == {"score", "value", "low", "high"}
    assert [each["method"] for each in found["options"]] == [each.method for each in advice.options]


def test_where_nothing_is_left_it_says_what_would_help() -> None:
    advice = advise(500, 5, TWO, 0.01)
    assert advice.options == () and advice.remedy.startswith("nothing admissible is left: with 500 records")
    with pytest.raises(InputError, match=r"^epsilon: nothing admissible is left: .* records, or epsilon = .* would do"):
        advice.best  # noqa: B018 - it is what raises
    records = int(advice.remedy.split("about ")[1].split(" records")[0].replace(",", ""))
    epsilon = float(advice.remedy.split("or epsilon = ")[1].split(" ")[0])
    assert advise(round(1.1 * records), 5, TWO, 0.01).options and not advise(round(0.8 * records), 5, TWO, 0.01).options
    assert advise(500, 5, TWO, 1.1 * epsilon).options and not advise(500, 5, TWO, 0.8 * epsilon).options


def test_where_nothing_helps_no_remedy_is_named() -> None:
    remedy = advise(30, 3, TWO, 1e-7).remedy
    assert remedy.startswith("nothing admissible is left") and remedy.endswith("than a constant answer")


def test_another_trust_is_named_where_it_helps() -> None:
    found = next(
        advice
        for epsilon in (0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
        if not (advice := advise(2000, 5, TWO, epsilon)).options and advise(2000, 5, TWO, epsilon, 0, "central").options
    )
    assert "or central trust would do" in found.remedy
    assert "central trust would" not in advise(2000, 5, TWO, 1e-6).remedy
    assert not advise(LEAST_RECORDS - 1, 5, TWO, 5, 0, "central").options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 5, TWO, 1), "records must be an integer, at least 1"),
        ((2.5, 5, TWO, 1), "records must be an integer"),
        ((100, 0, TWO, 1), "dimension must be an integer"),
        ((100, 5, "no,yes", 1), "domain must be Classes or an Interval"),
        ((100, 5, TWO, 0), "epsilon must be positive"),
        ((100, 5, TWO, 1, 2), r"delta must lie in \[0, 1\)"),
        ((100, 5, TWO, 1, 0, "me"), "trust must be local or central"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        advise(*arguments)


def test_counts_are_said_in_two_digits() -> None:
    assert [rounded(each) for each in (0.2, 1.4, 12.3, 678, 15_432)] == [1, 1, 12, 680, 15_000]


def test_its_source_is_a_page() -> None:
    assert (Path(__file__).parents[2] / SOURCE).is_file()


def test_what_noise_costs_is_said_where_public_numbers_tell() -> None:
    assert str(Expected("AUC", 4.2, 1.0, 9.0)) == "noise costs 4 points of AUC (1 to 9)"
    assert str(Expected("accuracy", 0.8, -0.4, 3.1)) == "noise costs 1 point of accuracy (0 to 3)"
    assert Expected("AUC", 9, 1, 1 + WIDEST).tells and not Expected("AUC", 9, 1, 1.1 + WIDEST).tells
    for hidden in (Expected("accuracy", 30.0, 5.0, 60.0), Expected("RMSE", 7.0, 2.0, 15.0)):
        assert str(hidden) == "public numbers cannot tell what noise costs"
