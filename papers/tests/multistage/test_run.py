"""Every run of a grid leaves one file, is not made twice, and says where it came from."""

import fcntl
import json
import os
from pathlib import Path

import numpy as np
import pytest

from labeldp.features import CHOSEN
from labeldp.images import LabeledArrays
from labeldp.privacy import InputError
from papers.multistage import grid as tasks
from papers.multistage.grid import Grid, Run
from papers.multistage.run import Result, reproduce_multistage
from papers.ratings import RatingData

PARTS = {"train": 60, "test": 40}


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    """Images of 9 pixels a side, whose brighter half is the label."""
    rng, found = np.random.default_rng(seed), {}
    for part, count in PARTS.items():
        labels = rng.integers(0, 2, count)
        images = rng.integers(0, 60, (count, 9, 9))
        images[labels == 0, :4] += 150
        images[labels == 1, 5:] += 150
        found |= {f"{part}_images": images.astype(np.uint8), f"{part}_labels": labels}
    return found


@pytest.fixture
def images(tmp_path: Path) -> str:
    path = tmp_path / "halves.npz"
    np.savez(path, **arrays())
    return str(path)


def grid(**changes: object) -> Grid:
    options = {
        "dataset": "npz",
        "classes": "2",
        "epsilon": "5",
        "delta": "1e-6",
        "method": "linear",
        "network": None,
        "preset": None,
        "seeds": 1,
        "figure": None,
    }
    return Grid.parse(**{**options, **changes})


def clusters(**changes: object) -> Grid:
    """The quickest grid that there is: five numbers of clusters are cut to those that 60 records allow."""
    made = grid(figure="clusters", **changes)
    small = tuple(run for run in made.runs if run.setting("clusters") <= 30)
    return Grid(made.dataset, made.classes, small)


def test_a_run_says_what_it_was_and_that_it_was_a_simulation(images: str, tmp_path: Path) -> None:
    [result] = reproduce_multistage(grid(), data=images, out=str(tmp_path / "out"))
    [path] = (tmp_path / "out" / "runs").iterdir()
    content = json.loads(path.read_text())
    assert content["run"] == {
        "dataset": "npz",
        "method": "linear",
        "epsilon": 5.0,
        "delta": 1e-6,
        "seed": 0,
        "network": None,
        "preset": None,
        "settings": {},
    }
    assert content["trust"] == "central" and content["metric"] == "accuracy" and content["value"] > 0.8
    assert content["records"] == [60, 40]
    assert "SIMULATION" in content["certificate"] and "ε = 5, δ = 1e-06" in content["certificate"]
    assert {"seconds", "hardware", "versions", "date", "curve", "recipe"} <= set(content)
    assert str(tmp_path) not in path.read_text()
    assert Result.read(path) == result
    assert not (tmp_path / "out" / "unfinished").exists()


def test_what_stands_is_not_run_again_and_what_is_missing_is(images: str, tmp_path: Path) -> None:
    out, said = tmp_path / "out", list[str]()
    first = reproduce_multistage(clusters(seeds=2), data=images, out=str(out))
    assert len(first) == 4
    kept, gone = sorted((out / "runs").iterdir())[:2]
    gone.unlink()
    stamp = kept.stat().st_mtime_ns
    second = reproduce_multistage(clusters(seeds=2), data=images, out=str(out), callback=said.append)
    assert kept.stat().st_mtime_ns == stamp
    assert sum("from before" in each for each in said) == 3
    assert [each.value for each in second] == [each.value for each in first]


def test_what_is_there_is_published_after_each_run(images: str, tmp_path: Path) -> None:
    counts = list[int]()

    def publish(results: list[Result]) -> None:
        counts.append(len(results))

    reproduce_multistage(clusters(), data=images, out=str(tmp_path / "out"), publish=publish)
    reproduce_multistage(clusters(), data=images, out=str(tmp_path / "out"), publish=publish)
    assert counts == [1, 2]


def test_a_folder_collects_grids(images: str, tmp_path: Path) -> None:
    reproduce_multistage(clusters(), data=images, out=str(tmp_path / "out"))
    results = reproduce_multistage(clusters(epsilon="0.1"), data=images, out=str(tmp_path / "out"))
    assert {each.run.epsilon for each in results} == {0.1, 5.0}


def test_a_run_that_somebody_is_at_is_left_to_them(images: str, tmp_path: Path) -> None:
    made, out, said = clusters(), tmp_path / "out", list[str]()
    (out / "runs").mkdir(parents=True)
    place = out / "unfinished" / made.runs[0].name
    place.mkdir(parents=True)
    handle = os.open(place, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    results = reproduce_multistage(made, data=images, out=str(out), callback=said.append)
    os.close(handle)
    assert [each.run for each in results] == [made.runs[1]] and "left to the command" in said[0] and place.is_dir()
    assert len(reproduce_multistage(made, data=images, out=str(out))) == 2


def test_clusters_of_all_images_are_counted_on_training_labels_and_measured_on_test_images(
    images: str, tmp_path: Path
) -> None:
    few, many = reproduce_multistage(clusters(), data=images, out=str(tmp_path / "out"))
    assert few.metric == many.metric == "accuracy" and few.value > 0.9 and few.run.delta == 0
    assert few.releases[0]["records"] == PARTS["train"], "no test label was counted"
    flipped = {**arrays(), "test_labels": 1 - arrays()["test_labels"]}
    np.savez(tmp_path / "flipped.npz", **flipped)
    other, _ = reproduce_multistage(clusters(), data=str(tmp_path / "flipped.npz"), out=str(tmp_path / "other"))
    assert other.value == pytest.approx(1 - few.value)


def test_runs_have_noises_and_names_of_their_own() -> None:
    runs = grid(epsilon="0.5,1", seeds=3).runs + clusters(seeds=3).runs
    assert len({run.name for run in runs}) == len(runs)
    assert len({run.rng().integers(1 << 60) for run in runs}) == len(runs)
    assert [run.seed for run in grid(epsilon="0.5,1", seeds=2).runs] == [0, 0, 1, 1]


def test_defaults_go_with_data_set_network_and_method() -> None:
    def only(**changes: object) -> Run:
        return grid(classes=None, **changes).runs[0]

    chosen = only(dataset="mnist", method="lp-2st")
    assert (chosen.network, chosen.preset, chosen.delta) == ("cnn", "quick", 0.0)
    assert only(dataset="fashion_mnist", method="lp-1st", network="inception").preset == "mnist"
    assert only(dataset="movielens", method="lp-1st").network == "collaborative"
    best = only(dataset="mnist", method="best")
    assert (best.network, best.preset, best.delta) == ("cnn", None, 1e-6)


WRONG = [
    ({"dataset": "mnits"}, "--dataset must be one of mnist"),
    ({"method": "lp-4st"}, "--method must be one or more of lp-1st"),
    ({"method": "linear,linear"}, "distinct"),
    ({"method": "linear,"}, "--method must hold"),
    ({"seeds": 0}, "--seeds must be at least 1"),
    ({"epsilon": "0"}, "epsilon"),
    ({"epsilon": "1,much"}, "epsilon must be"),
    ({"delta": "0"}, "--delta must be positive"),
    ({"delta": "2"}, "delta"),
    ({"figure": "pie"}, "--figure must be one of"),
    ({"network": "cnn"}, "--network and --preset need a method"),
    ({"method": "best", "preset": "quick"}, "--preset is for lp-1st"),
    ({"classes": None}, "--classes must be given with --dataset npz"),
    ({"dataset": "mnist"}, "--classes must be given with --dataset npz"),
    ({"dataset": "movielens", "classes": None}, "needs images"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_wrong_options_are_refused_before_any_file_is_read(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        grid(**changes)


def refused(made: Grid, data: str, out: Path, words: str) -> None:
    before = sorted(out.rglob("*")) if out.exists() else []
    with pytest.raises(InputError, match=words):
        reproduce_multistage(made, data=data, out=str(out))
    left = sorted(out.rglob("*")) if out.exists() else []
    assert [path for path in left if path.is_file()] == [path for path in before if path.is_file()]


def test_what_was_made_with_other_constants_does_not_stand_for_this(tmp_path: Path, images: str) -> None:
    reproduce_multistage(grid(), data=images, out=str(tmp_path / "out"))
    [path] = (tmp_path / "out" / "runs").iterdir()
    content = json.loads(path.read_text())
    assert content["constants"]["DECAY"] == CHOSEN["DECAY"]
    path.write_text(json.dumps({**content, "constants": {**content["constants"], "DECAY": 0.123}}))
    refused(grid(), images, tmp_path / "out", "was made by linear as it was before: name another folder, or remove it")
    del content["constants"]
    path.write_text(json.dumps(content))
    [result] = reproduce_multistage(grid(), data=images, out=str(tmp_path / "out"))
    assert result.constants is None and result.value == content["value"], "an older file, of which it is not known"
    assert json.loads(path.read_text()) == content


def test_ratings_of_users_and_movies_without_a_training_rating_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = LabeledArrays(np.array([[0, 0], [0, 2], [3, 2]]), np.array([1, 5, 3]))
    test = LabeledArrays(np.array([[0, 2], [3, 0], [1, 0], [0, 1], [3, 3]]), np.array([1, 2, 3, 4, 5]))
    monkeypatch.setattr(tasks, "load_movielens", lambda path: RatingData(train, test, np.arange(4), np.arange(4)))
    task = tasks.load_task("movielens", str(tmp_path), None)
    assert task.test.features.tolist() == [[0, 2], [3, 0]] and task.test.labels.tolist() == [1, 2]
    assert task.train.labels.tolist() == [0, 4, 2]


def test_wrong_data_is_refused(tmp_path: Path, images: str) -> None:
    refused(grid(), str(tmp_path / "nowhere.npz"), tmp_path / "a", "nowhere.npz")
    np.savez(tmp_path / "alone.npz", images=arrays()["train_images"], labels=arrays()["train_labels"])
    refused(grid(), str(tmp_path / "alone.npz"), tmp_path / "a", "must have a test part")
    np.savez(tmp_path / "three.npz", **{**arrays(), "train_labels": np.full(60, 2)})
    refused(grid(), str(tmp_path / "three.npz"), tmp_path / "a", "domain")
    refused(grid(figure="clusters"), images, tmp_path / "a", "at least 100 training records")


def test_folders_that_hold_something_else_are_left_alone(tmp_path: Path, images: str) -> None:
    (tmp_path / "file").write_text("mine")
    refused(grid(), images, tmp_path / "file", "is a file")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    refused(grid(), images, tmp_path / "full", "holds other things")
    (tmp_path / "odd" / "runs").mkdir(parents=True)
    (tmp_path / "odd" / "runs" / "mine.json").write_text("[]")
    refused(grid(), images, tmp_path / "odd", "mine.json is not a result")


def test_runs_on_other_files_do_not_stand_for_these(tmp_path: Path, images: str) -> None:
    reproduce_multistage(clusters(), data=images, out=str(tmp_path / "out"))
    np.savez(tmp_path / "others.npz", **arrays(seed=1))
    refused(clusters(), str(tmp_path / "others.npz"), tmp_path / "out", "other files of npz")
