"""LP-1ST, LP-2ST and best are run as their paper's tables need them, and go on where they were interrupted."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.features import CHOSEN
from labeldp.networks import PRESETS, distillation
from labeldp.networks.losses import FIRST_SMOOTHING
from labeldp.privacy import InputError
from networks.conftest import Images
from networks.conftest import test as test
from networks.conftest import training as training
from papers.multistage import grid as grids
from papers.multistage.grid import Grid
from papers.multistage.report import write_reproduced
from papers.multistage.run import constants, reproduce_multistage


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six epochs, however few steps those are."""
    monkeypatch.setitem(PRESETS, "quick", (replace(PRESETS["quick"][0], least_steps=0),))


@pytest.fixture
def images(training: Images, test: Images, tmp_path: Path) -> str:
    parts = {"train": training, "test": test}
    arrays = {
        f"{part}_{kind}": array
        for part, pair in parts.items()
        for kind, array in zip(("images", "labels"), pair, strict=True)
    }
    np.savez(tmp_path / "bars.npz", **arrays)
    return str(tmp_path / "bars.npz")


def grid(**changes: object) -> Grid:
    options = {"dataset": "npz", "classes": "4", "epsilon": "4", "delta": "1e-6", "method": "lp-2st", "network": None}
    return Grid.parse(**{**options, "preset": None, "seeds": 1, "figure": None, **changes})


def test_both_stages_are_told(images: str, tmp_path: Path) -> None:
    one, two = reproduce_multistage(grid(method="lp-1st,lp-2st"), data=images, out=str(tmp_path / "out"))
    assert [each["step"] for each in one.releases] == ["stage 1"] and one.candidates is None
    assert [each["step"] for each in two.releases] == ["stage 1", "stage 2"]
    assert sum(each["records"] for each in two.releases) == 600
    assert 1 <= two.candidates <= 4 and 0.25 < two.covered <= 1
    assert [(each["step"], each["epoch"]) for each in two.curve] == [
        (step, epoch) for step in ("stage 1", "stage 2") for epoch in range(1, 7)
    ]
    assert two.trust == "local" and two.run.delta == 0 and len(two.recipe) == 1
    assert "SIMULATION" in two.certificate and "torch" in two.versions


def test_three_stages_are_told(images: str, tmp_path: Path) -> None:
    [three] = reproduce_multistage(grid(method="lp-3st"), data=images, out=str(tmp_path / "out"))
    assert [each["step"] for each in three.releases] == ["stage 1", "stage 2", "stage 3"]
    assert sum(each["records"] for each in three.releases) == 600 and three.run.delta == 0


def test_clusters_of_learned_embeddings_are_measured_on_test_images(
    images: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(grids.FIGURES, "ssl-clusters", ("ssl-clusters", {"clusters": (4.0, 20.0)}))
    results = reproduce_multistage(grid(figure="ssl-clusters"), data=images, out=str(tmp_path / "out"))
    assert [each.run.method for each in results] == ["ssl-clusters"] * 2 and results[0].metric == "accuracy"
    assert max(each.value for each in results) > 0.3, "better than chance"
    [path, *_] = (path for path in write_reproduced(results, tmp_path) if path.endswith(".svg"))
    assert Path(path).name == "npz-ssl-clusters.svg"


class Interrupted(BaseException):
    """The power went off."""


def stop_at(words: str) -> Callable[[str, float], None]:
    def show(text: str, share: float) -> None:
        if words in text:
            raise Interrupted

    return show


@pytest.mark.parametrize("words", ["stage 1, epoch 3", "stage 2, epoch 4"])
def test_an_interrupted_run_ends_where_it_would_have(images: str, tmp_path: Path, words: str) -> None:
    [whole] = reproduce_multistage(grid(), data=images, out=str(tmp_path / "whole"))
    out = tmp_path / "out"
    with pytest.raises(Interrupted):
        reproduce_multistage(grid(), data=images, out=str(out), progress=stop_at(words))
    [place] = (out / "unfinished").iterdir()
    assert not list((out / "runs").iterdir()) and list(place.glob("*.pt"))
    [again] = reproduce_multistage(grid(), data=images, out=str(out))
    assert again.value == whole.value and again.releases == whole.releases
    assert [each["loss"] for each in again.curve] == [each["loss"] for each in whole.curve]
    assert not (out / "unfinished").exists()


def test_a_sweep_changes_what_it_says(images: str, tmp_path: Path) -> None:
    runs = grid(figure="split-temperature").runs + grid(figure="mixup").runs
    some = tuple(run for run in runs if run.settings in SETTINGS)
    found = {each.run.settings: each for each in results(images, tmp_path, some)}
    assert [each["records"] for each in found[SETTINGS[0]].releases] == [420, 180]
    assert [each["mixup"] for each in found[SETTINGS[1]].recipe] == [8.0, 2.0]


SETTINGS = ((("split", 0.7), ("temperature", 2.0)), (("mixup1", 8.0), ("mixup2", 2.0)))


def results(images: str, folder: Path, runs: tuple[object, ...]) -> list[object]:
    return reproduce_multistage(Grid("npz", "4", runs), data=images, out=str(folder / "out"))


@pytest.mark.parametrize("changes", [{"network": "cn"}, {"preset": "slow"}])
def test_unknown_networks_and_presets_are_refused(images: str, tmp_path: Path, changes: dict[str, str]) -> None:
    with pytest.raises(InputError, match=f"--{next(iter(changes))} must be one of"):
        reproduce_multistage(grid(**changes), data=images, out=str(tmp_path / "out"))
    with pytest.raises(InputError, match="pairs of ids"):
        reproduce_multistage(grid(network="collaborative"), data=images, out=str(tmp_path / "out"))


def test_a_recipe_that_changed_is_another_run(images: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    reproduce_multistage(grid(method="lp-1st"), data=images, out=str(out))
    [path] = (out / "runs").iterdir()
    content = json.loads(path.read_text())
    content["recipe"][0]["epochs"] = 7
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="another recipe"):
        reproduce_multistage(grid(method="lp-1st"), data=images, out=str(out))


def test_stars_are_measured_by_their_mean(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.permutation(40 * 30)[:800]
    user, movie = pairs // 30, pairs % 30
    stars = np.clip(1 + movie % 5, 1, 5)
    np.savez(tmp_path / "ratings.npz", user_id=user, movie_id=movie, rating=stars)
    made = grid(dataset="movielens", classes=None, method="lp-1st", epsilon="8")
    [result] = reproduce_multistage(made, data=str(tmp_path / "ratings.npz"), out=str(tmp_path / "out"))
    assert result.metric == "RMSE" and 0 <= result.value < np.std(stars)
    assert result.run.network == "collaborative" and result.run.preset == "movielens"


def test_ratings_have_a_recipe_with_less_weight_decay_for_much_noise() -> None:
    [plain], [noisy] = PRESETS["movielens"], PRESETS["movielens-noisy"]
    assert noisy.weight_decay < plain.weight_decay and replace(noisy, weight_decay=plain.weight_decay) == plain
    [run] = grid(dataset="movielens", classes=None, method="lp-1st", preset="movielens-noisy").runs
    assert run.preset == "movielens-noisy"


def test_a_run_of_best_is_one_of_its_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    [run] = grid(method="best").runs
    before = constants(run)
    assert before == json.loads(json.dumps(before)) and {*CHOSEN, "LABELS_FROM", "STUDENT"} < set(before)
    linear = constants(grid(method="linear").runs[0])
    assert linear.keys() == CHOSEN.keys() | {"representation", "link"}
    assert constants(grid(method="lp-2st").runs[0]) == {"FIRST_SMOOTHING": FIRST_SMOOTHING}
    other = replace(distillation.SETTINGS, mirrored=0.25)
    monkeypatch.setattr("labeldp.networks.distillation.SETTINGS", other)
    assert constants(run) == {**before, "MIRRORED": 0.25}
