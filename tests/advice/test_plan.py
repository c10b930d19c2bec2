"""Plans: numbers by hand, rules of the learners, and files of which no label is read."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from labeldp.advice import SampleSizeQuery, make_plan, read_features
from labeldp.advice import plan as planning_file
from labeldp.cli.advice import plan_lines, times
from labeldp.learners import clipping_radius, cube_side, neighbor_count
from labeldp.privacy import InputError, Trust
from labeldp.tables import Table

ASKED: dict[str, Any] = {
    "n": "1e6",
    "d": "4",
    "task": None,
    "classes": "2",
    "interval": None,
    "epsilon": "0.1,1,4",
    "trust": "local,central",
    "protection": "label",
    "spread": None,
    "beta": "1",
    "margin": "0",
    "moments": None,
}
NUMBERS = {"classes": None, "interval": "-5,5"}
HEAVY = {"classes": None, "moments": "3"}


def question(**changes: Any) -> SampleSizeQuery:
    return SampleSizeQuery.parse(**{**ASKED, **changes})


def test_the_plan_of_the_example_by_hand() -> None:
    """ε = 1, local: 1 + 1/(2 sinh²(1/4)) times the records; h^6 = 2 · that / 10^6 up to d/(2β) = 2."""
    plan = make_plan(question())
    assert [(row.epsilon, row.trust) for row in plan.rows] == [
        (e, t) for e in (0.1, 1, 4) for t in ("local", "central")
    ]
    row = plan.rows[2]
    multiple = 1 + 1 / (2 * math.sinh(0.25) ** 2)
    assert row.relative_records == pytest.approx(multiple, rel=1e-4)
    assert row.side == pytest.approx((2 * multiple / 1e6) ** (1 / 6), rel=1e-3)
    assert row.cell_records == pytest.approx(1e6 * row.side**4)
    assert row.cells == math.ceil(row.side**-4)
    assert row.noise == pytest.approx(math.sqrt((multiple - 1) / row.cell_records))
    assert row.tells_apart == pytest.approx(1.645 * math.sqrt(multiple / row.cell_records), rel=1e-3)
    assert row.exponent == pytest.approx(1 / 6) and row.model == "cells" and row.neighbors is None
    assert plan.alternatives[1.0]["local label"] == row.relative_records
    assert plan.alternatives[1.0]["central full"] == plan.alternatives[1.0]["central label"]
    assert plan.alternatives[1.0]["local full"] > 1000 * row.relative_records


def test_numbers_are_in_the_unit_of_the_labels() -> None:
    """Labels from -5 to 5: five times those from -1 to 1; a spread of 5 · 0.3 is 0.3 there."""
    wide = make_plan(question(**NUMBERS, spread="1.5")).rows
    narrow = make_plan(question(**{**NUMBERS, "interval": "-1,1"}, spread="0.3")).rows
    for one, other in zip(wide, narrow, strict=True):
        assert one.noise == pytest.approx(5 * other.noise) and one.off_by == pytest.approx(5 * other.off_by)
        assert one.relative_records == pytest.approx(other.relative_records)
        assert (one.neighbors, one.side) == (other.neighbors, other.side)
    assert [row.model for row in wide[:2]] == ["neighbors", "cells"]
    assert wide[1].noise == pytest.approx(math.sqrt(2) * 10 / (0.1 * wide[1].cell_records)), "Laplace, scale 10/(n ε)"


def test_features_that_are_private_too_get_cubes_and_a_smallest_count() -> None:
    rows = make_plan(question(**NUMBERS, trust="central", protection="label,full", epsilon="1")).rows
    assert [row.model for row in rows] == ["cells", "full cells"]
    assert rows[0].smallest is None and rows[1].smallest == math.ceil(rows[1].cell_records / 2)
    assert rows[1].noise > rows[0].noise


@pytest.mark.parametrize("trust", ["local", "central"])
@pytest.mark.parametrize("changes", [{}, NUMBERS, HEAVY])
def test_tuning_has_the_exponents_of_the_learners_rules(trust: str, changes: dict[str, Any]) -> None:
    """Constants differ, as a plan knows the noise: sides, neighbors and radii grow with N as those of the rules do."""
    counts, few = (10**13, 10**15), {"epsilon": "1e-4", "trust": trust, "spread": None, "d": "2", **changes}
    found = [make_plan(question(n=str(count), **few)).rows[0] for count in counts]
    moments = 3.0 if changes is HEAVY else None
    shape: dict[str, Any] = {"epsilon": 1e-4, "moments": moments}
    classes = None if changes else 2
    sides = [cube_side(n, 2, trust=Trust[trust.upper()], classes=classes, **shape) for n in counts]
    assert math.log(found[1].side / found[0].side) == pytest.approx(math.log(sides[1] / sides[0]), abs=0.25)
    if found[0].neighbors and found[1].neighbors:
        near = [neighbor_count(n, 2, classes=classes, **shape) for n in counts]
        assert math.log(found[1].neighbors / found[0].neighbors) == pytest.approx(math.log(near[1] / near[0]), abs=0.5)
    if changes is HEAVY:
        radii = [clipping_radius(n, 2, trust=Trust[trust.upper()], **shape) for n in counts]
        ours = [row.clipping_radius for row in found]
        assert math.log(ours[1] / ours[0]) == pytest.approx(math.log(radii[1] / radii[0]), abs=0.25)


def test_a_plan_is_json_and_words() -> None:
    plan = make_plan(question(**HEAVY, epsilon="0.5"))
    found = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert found["version"] == 1 and found["question"]["records"] == 1_000_000
    assert [row["trust"] for row in found["rows"]] == ["local", "central"]
    assert found["alternatives"][0]["epsilon"] == 0.5 and found["features"] is None
    lines = plan_lines(plan)
    assert lines[0] == "Heavy-tailed, labels with 3 moments, 4 features, n = 1,000,000"
    assert max(map(len, lines)) <= 140 and not any(line != line.rstrip() for line in lines)


def test_hopeless_plans_say_so() -> None:
    plan = make_plan(question(n="100", d="30", epsilon="1e-9", protection="full"))
    assert math.isfinite(plan.rows[0].relative_records) and not plan.rows[0].enough
    words = "\n".join(plan_lines(plan))
    assert "Too few records to learn more than the baseline: ε = 1e-09, local, label + features" in words.replace(
        "\n", " "
    )
    assert "nothing" in words
    assert "Too few" not in "\n".join(plan_lines(make_plan(question(epsilon="4"))))


@pytest.mark.parametrize(
    ("multiple", "text"),
    [(1.0, "1.00 ×"), (8.835, "8.84 ×"), (9.97, "10 ×"), (80.4, "80 ×"), (801.3, "801 ×"), (3e7, "10^7 ×")],
)
def test_multiples_are_rounded(multiple: float, text: str) -> None:
    assert times(multiple) == text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": None}, "--n is missing"),
        ({"n": "many"}, "--n must be a whole number, at least 1, such as 1e6"),
        ({"n": "1.5"}, "--n must be a whole number"),
        ({"n": "inf"}, "--n must be a whole number"),
        ({"n": "0"}, "--n must be a whole number"),
        ({"d": "0"}, "--d must be a whole number"),
        ({"d": None}, "--d is missing"),
        ({"task": "ranking"}, "--task must be one of classification, regression, heavy-tailed"),
        ({"task": "regression"}, "--task regression needs --range LOW,HIGH, and none of the others"),
        ({"classes": None}, "say what labels are: --classes, --range or --moments, and none of the others"),
        ({"interval": "0,1"}, "say what labels are"),
        ({"classes": "1"}, "classes"),
        ({"classes": None, "interval": "1,0"}, "--range must hold two numbers, the lower one first"),
        ({"classes": None, "interval": "1"}, "--range must hold two numbers"),
        ({"epsilon": "1,0"}, "epsilon must be positive"),
        ({"epsilon": "1e-10"}, "epsilon must be at least 1e-09"),
        ({"epsilon": "1,,2"}, "--epsilon must hold numbers, separated by commas"),
        ({"epsilon": "much"}, "epsilon"),
        ({"trust": "nobody"}, "--trust must hold local or central, separated by commas"),
        ({"protection": "none"}, "--protection must hold label or full, separated by commas"),
        ({"spread": "1"}, "--spread goes with --range"),
        ({**NUMBERS, "spread": "6"}, "--spread must be positive and at most half of the range"),
        ({**NUMBERS, "spread": "nan"}, "--spread must be positive"),
        ({"beta": "2"}, "beta must lie in"),
        ({"beta": "x"}, "--beta must be a number"),
        ({"margin": "5"}, "margin · beta must be at most 4"),
        ({**HEAVY, "moments": "1"}, "moments must be at least 2"),
    ],
)
def test_a_question_without_an_answer_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        question(**changes)


def table(folder: Path, rows: int = 3000) -> pd.DataFrame:
    """Two dimensions in three columns, a constant, an id and a label."""
    rng = np.random.default_rng(0)
    one, two = rng.random((2, rows))
    frame = pd.DataFrame({"id": np.arange(rows), "a": one, "b": two, "c": one + two, "same": 1, "y": one > 0.5})
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet", index=False)
    return frame


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_a_file_says_how_many_records_columns_and_dimensions(tmp_path: Path, name: str) -> None:
    table(tmp_path)
    found = read_features(str(tmp_path / name), label="y", id_column="id")
    assert (found.records, found.columns, found.dimension) == (3000, ("a", "b", "c"), 3)
    assert found.intrinsic_dimension == pytest.approx(2, rel=0.15)
    assert found.notes == ("left out 'same': every value is the same",)
    plan = make_plan(SampleSizeQuery.parse(**{**ASKED, "n": None, "d": None}, features=found), found)
    assert plan.question.records == 3000 and plan.question.dimension == 3
    lines = plan_lines(plan)
    assert "The features fill about 2.0 dimensions" in lines[2] and "--d 2" in lines[2]
    assert plan.to_json()["features"]["intrinsic_dimension"] == found.intrinsic_dimension


def test_a_large_file_is_sampled_by_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the blocks, the size is the file's, and the dimension nearly the same."""
    table(tmp_path, rows=12_000)
    whole = read_features(str(tmp_path / "rows.csv"), label="y")
    monkeypatch.setattr(planning_file, "SAMPLED_ROWS", 2000)
    blocks = read_features(str(tmp_path / "rows.csv"), label="y", block_rows=700)
    assert whole.records == blocks.records == 12_000
    assert whole.intrinsic_dimension == pytest.approx(blocks.intrinsic_dimension, rel=0.1)


def test_what_is_stated_goes_before_what_the_file_has(tmp_path: Path) -> None:
    table(tmp_path)
    found = read_features(str(tmp_path / "rows.csv"), label="y", columns="a, b")
    asked = SampleSizeQuery.parse(**{**ASKED, "n": "1e7", "d": None}, features=found)
    assert (asked.records, asked.dimension) == (10**7, 2)


@pytest.mark.guarantee("labeldp.advice:read_features", "no_label")
def test_the_label_column_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The label column is not among the columns that are asked for."""
    frame = table(tmp_path)
    asked: list[Any] = []
    blocks = Table.blocks
    monkeypatch.setattr(Table, "blocks", lambda *args, **kw: asked.append(args[1:]) or blocks(*args, **kw))
    first = read_features(str(tmp_path / "rows.parquet"), label="y", id_column="id")
    assert [names for names in asked if names] == [(["a", "b", "c", "same"],)]
    first = read_features(str(tmp_path / "rows.csv"), label="y", id_column="id")
    frame.assign(y="no label at all").to_csv(tmp_path / "rows.csv", index=False)
    assert read_features(str(tmp_path / "rows.csv"), label="y", id_column="id") == first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"label": None}, "--label must name the private column"),
        ({"label": "z"}, "--label: .* has no column 'z'"),
        ({"id_column": "z"}, "--id: .* has no column 'z'"),
        ({"columns": "a,z"}, "--features: .* has no column 'z'"),
        ({"columns": "a,y"}, "--features must not hold the label column, the id column or the user column"),
        ({"columns": "same"}, "no feature column that can be used"),
    ],
)
def test_a_file_that_is_not_as_said_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    table(tmp_path)
    with pytest.raises(InputError, match=words):
        read_features(str(tmp_path / "rows.csv"), **{"label": "y", **changes})


def test_a_file_of_labels_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("y\n1\n2\n")
    with pytest.raises(InputError, match="must have feature columns in addition to the label"):
        read_features(str(tmp_path / "rows.csv"), label="y")


def test_too_few_rows_have_no_intrinsic_dimension(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,y\n1,0\n2,1\n")
    found = read_features(str(tmp_path / "rows.csv"), label="y")
    assert (found.records, found.intrinsic_dimension) == (2, None)
