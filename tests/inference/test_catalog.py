"""The list of estimates: its functions, arguments and rules, and the tables of the pages that are made from it."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import labeldp as ldp
from architecture.reference import estimate_tables
from inference.population import answers
from labeldp import inference
from labeldp.inference import ESTIMATES, RULES, USERS, Estimate

ROOT = Path(__file__).parents[2]
RESULTS = ("Estimate", "tuple[Estimate, Scores]", "tuple[PredictionSets, Flags | None]")


@pytest.mark.parametrize("name", ESTIMATES)
def test_a_row_names_a_function_of_the_package_and_its_arguments(name: str) -> None:
    entry = ESTIMATES[name]
    function = entry.load()
    assert getattr(inference, entry.function) is function and inspect.getdoc(function)
    signature = inspect.signature(function)
    taken = signature.parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        taken = {**taken, **inspect.signature(inference.conformal).parameters}
    arguments = [part.argument for part in (*entry.inputs, USERS) if part.kind != "why"]
    arguments += [part.titles for part in entry.inputs if part.titles] + list(entry.details)
    assert next(iter(taken)) == "release" and set(arguments) <= set(taken), name
    assert ("level" in entry.outputs) == ("level" in taken)
    for part in entry.inputs:
        if part.default is not None:
            assert taken[part.argument].default == part.default, f"{name}: the default of {part.option}"
    assert entry.help.partition("\n")[0].endswith(".") and len(entry.answers) == 4
    assert not entry.sums or any(part.role for part in entry.inputs)


def test_no_two_estimates_name_one_rule() -> None:
    names = [name for entry in ESTIMATES.values() for name in entry.rules]
    assert len(names) == len(set(names)) == len(RULES)
    assert {rule.guarantee for rule in RULES.values()} <= {"exact", "finite sample", "asymptotic", "anytime"}


def test_every_rule_is_of_some_interval() -> None:
    """A rule that no code names is not the rule of anything."""
    source = "".join(
        path.read_text() for path in (ROOT / "src/labeldp/inference").glob("*.py") if path.stem != "catalog"
    )
    assert [name for name in RULES if f'"{name}"' not in source] == []


def test_the_tables_of_the_pages_are_made_from_the_list() -> None:
    for page, text in estimate_tables().items():
        assert page.read_text() == text, f"{page.name}: make reference"


def test_a_summary_reads_like_that_of_statsmodels() -> None:
    rng = np.random.default_rng(0)
    age = rng.normal(size=3000)
    labels = (rng.random(3000) < 1 / (1 + np.exp(1 - age))).astype(int)
    result = inference.regression(answers(rng, labels, 2, 3.0), age, names=["age"])
    head, columns, *rows = result.summary().splitlines()
    assert head.startswith("log odds ratio among records like these, 3,000 records, 95 % intervals (asymptotic: ")
    assert columns.split() == ["coef", "std", "err", "[0.025", "0.975]", "odds", "ratio", "[0.025", "0.975]"]
    assert [row.split()[0] for row in rows] == ["constant", "age"] and len({*map(len, rows)}) == 1
    assert np.array_equal(result.conf_int(), np.column_stack([result.low, result.high]))
    slope = [float(cell) for cell in rows[1].split()[1:]]
    assert slope[4:] == pytest.approx(np.exp([slope[0], slope[2], slope[3]]), rel=2e-3)
    alone = Estimate(quantity="share", value=0.5, low=0.4, high=0.6, level=0.9)
    assert alone.summary().splitlines()[1].split() == ["coef", "std", "err", "[0.05", "0.95]"]
    assert alone.conf_int().tolist() == [0.4, 0.6]


def test_labels_of_two_kinds_have_the_estimates_that_the_table_names() -> None:
    """Numbers are refused where the table says no."""
    release = ldp.Curator(np.full(50, 0.5), domain=ldp.Interval(0, 1, 11), budget=ldp.Budget(1)).release(
        ldp.DiscreteLaplace(domain=ldp.Interval(0, 1, 11), epsilon=1), rng=np.random.default_rng(0)
    )
    arms = np.arange(50) % 2
    public = {
        "numbers": arms, "arms": arms, "table": arms[:, None] + np.arange(50)[:, None] % 3, "column": arms,
        "codes": ldp.Public(arms, why="a test"), "chances": None, "shares": {"0": 0.5, "1": 0.5},
    }  # fmt: skip
    for name, entry in ESTIMATES.items():
        if name in ("evaluate", "conformal"):
            continue
        chosen = {part.argument: public[part.kind] for part in entry.inputs if part.required and part.kind in public}
        chosen |= {"scores": ldp.Public(arms, why="a test")} if "scores" in chosen else {}
        chosen |= {"kind": "linear"} if name == "regression" else {}
        chosen |= {"after": np.arange(50) // 2 % 2} if "after" in chosen else {}
        if entry.answers[1] == "no":
            with pytest.raises(ldp.privacy.InputError, match=r"^release |bins|classes"):
                entry.load()(release, **chosen)
        else:
            assert np.all(np.isfinite(np.asarray(entry.load()(release, **chosen).value)))
