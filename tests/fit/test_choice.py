"""The rule of advice: its formula by hand, its order, what it refuses and what would help."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import labeldp as ldp
from labeldp.fit import Command, advise
from labeldp.fit.choice import (
    ALIKE,
    LEAST_RECORDS,
    SCORES,
    SOURCE,
    WAYS,
    Expected,
    LearningCurve,
    expected,
    kind_of,
    rounded,
)
from labeldp.learners import LEARNERS
from labeldp.privacy import InputError, Trust

TWO, NUMBERS = ldp.Classes(("no", "yes")), ldp.Interval(0, 100)
DOMAINS = {"two classes": TWO, "classes": ldp.Classes(5), "numbers": NUMBERS}


def test_records_with_noise_are_worth_fewer_without() -> None:
    """Randomized: n tanh²(ε/2), which is n (2p - 1)² of two classes; of sums n / (1 + noise / (n ε²))."""
    keep = ldp.RandomizedResponse(domain=TWO, epsilon=1).keep_probability
    local, central = LearningCurve(0.2, 0.6, 0.8, 100, 1), LearningCurve(0.2, 0.6, 0.8, 100, 1, noise=50)
    assert local.left(1000, 1.0) == pytest.approx(1000 * (2 * keep - 1) ** 2)
    assert central.left(1000, 0.5) == pytest.approx(1000 / (1 + 50 / 250))
    assert local.share(1000, 1.0) == pytest.approx(1 / (1 + 100 / local.left(1000, 1.0)))
    assert local.share(10**9, 1000.0) == pytest.approx(1) and local.share(1, 1e-300) == 0


def test_scores_lie_between_a_constant_and_the_best() -> None:
    curve, of_numbers = LearningCurve(0.2, 0.6, 0.8, 100, 1), LearningCurve(0.1, 0.5, 0.8, 100, 1)
    way = replace(WAYS[0], curves={"two classes": curve, "numbers": of_numbers})
    half = math.ceil(100 / math.tanh(0.5) ** 2)
    found = expected(way, half, TWO, 1.0)
    assert found.score == "AUC"
    assert (found.value, found.low, found.high) == pytest.approx((65, 55, 70), rel=1e-2)
    error = expected(way, half, NUMBERS, 1.0)
    assert error.score == "error" and error.value == pytest.approx(math.sqrt(1 - 0.25), rel=1e-2)
    assert error.low < error.value < error.high < 1, "the least error is the best"


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("trust", ["local", "central"])
def test_the_best_comes_first_and_is_a_command(kind: str, trust: str) -> None:
    advice = advise(200_000, 12, DOMAINS[kind], "0.5", "1e-6", trust, Command("people.csv", "bought", ("--id", "id")))
    worse = [option.expected.value * (1 if kind == "numbers" else -1) for option in advice.options]
    bonus = [ALIKE[SCORES[kind]] * (option.settings["trust"] == "local") for option in advice.options]
    ranks = [value - more for value, more in zip(worse, bonus, strict=True)]
    assert ranks == sorted(ranks) and advice.best is advice.options[0]
    assert {option.expected.score for option in advice.options} == {SCORES[kind]} and kind_of(DOMAINS[kind]) == kind
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


def test_who_may_see_labels_may_also_randomize_them() -> None:
    local, central = (advise(5000, 5, TWO, 1, 0, trust).options for trust in ("local", "central"))
    assert {each.method for each in local} < {each.method for each in central}
    assert all("delta" not in each.settings for each in central), "no delta was given"


def test_where_two_are_alike_the_one_that_trusts_nobody_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    curve = LearningCurve(0.2, 0.6, 0.8, 10, 1)
    for top, first in ((0.605, "local auto"), (0.7, "central cells")):
        ways = [replace(way, curves={"two classes": curve}) for way in WAYS if way.name == "local auto"]
        other = replace(curve, top=top, noise=0.0)
        ways += [replace(way, curves={"two classes": other}) for way in WAYS if way.name == "central cells"]
        monkeypatch.setattr("labeldp.fit.choice.WAYS", tuple(ways))
        assert advise(10**6, 5, TWO, 5, 0, "central").best.method == first


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("trust", ["local", "central"])
def test_more_records_or_more_epsilon_never_do_harm(kind: str, trust: str) -> None:
    for sizes, epsilons in [((100, 1000, 10**5, 10**7), (1.0,)), ((20_000,), (0.01, 0.1, 1.0, 10.0))]:
        found = [advise(size, 5, DOMAINS[kind], e, 0, trust) for size in sizes for e in epsilons]
        best = [each.best.expected.value * (-1 if kind == "numbers" else 1) for each in found if each.options]
        assert best and all(later > sooner - ALIKE[SCORES[kind]] for sooner, later in pairwise(best))
        assert [bool(each.options) for each in found] == sorted(bool(each.options) for each in found)


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


def test_an_expected_error_names_its_measure() -> None:
    assert str(Expected("error", 0.75, 0.7, 0.8)) == "RMSE 0.75 times that of the mean (0.70 to 0.80)"
