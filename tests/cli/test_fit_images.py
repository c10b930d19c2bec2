"""A fit on images without torch: a linear model of patches, its predictions, and what is refused."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from cli.conftest import DONE, PUBLIC, Ran, account
from cli.test_refusals import refused
from labeldp.features import ImageMap, PatchFilters, ScatterFilters
from labeldp.fit import auto, fit_request, job
from labeldp.learners import catalog
from labeldp.privacy import InputError

FIT = ("fit", "bars.npz", "--label", "labels", "--classes", "4", *account("bars", "4"))
LOCAL = (*FIT, "--epsilon", "1", "--out", "model")
CENTRAL = (*LOCAL, "--delta", "1e-6", "--trust", "central")
LINEAR = (*CENTRAL, "--model", "linear")


def bars(count: int, seed: int) -> dict[str, Any]:
    """Images of one of four bars, and which."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    images = rng.integers(0, 90, (count, 12, 12))
    for which in range(4):
        place = slice(2 + which % 2 * 6, 4 + which % 2 * 6)
        images[labels == which, place, :] += 120 * (which < 2)
        images[labels == which, :, place] += 120 * (which >= 2)
    return {"images": images.astype(np.uint8), "labels": labels}


@pytest.fixture(autouse=True)
def archives(people: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with private, public and new images, and few filters and angles so that a fit is quick."""
    first, test = bars(500, 0), bars(200, 1)
    np.savez(people / "bars.npz", **first)
    np.savez(people / "test.npz", **test)
    np.savez(people / "both.npz", **{f"train_{name}": each for name, each in first.items()},
             **{f"test_{name}": each for name, each in test.items()})  # fmt: skip
    np.savez(people / "fives.npz", images=test["images"], labels=test["labels"] + 1)
    np.savez(people / "new.npz", images=test["images"])
    for kind in (PatchFilters, ImageMap):
        monkeypatch.setitem(kind.__init__.__kwdefaults__, "filters", 20)
    monkeypatch.setitem(ScatterFilters.__init__.__kwdefaults__, "angles", 2)
    return people


@pytest.mark.usefixtures("curves")
def test_one_command_makes_a_model_of_images_that_predicts(labeldp: Callable[..., Ran], people: Path) -> None:
    done = labeldp(*LINEAR, "--test", "test.npz", PUBLIC, "--diagnostics")
    assert done.status == 0, done.err
    found = json.loads((people / "model" / "summary.json").read_text())
    assert found["test"]["accuracy"] > 0.9 and found["test"]["file"] == "test.npz"
    assert found["images"] == "gray images of 12 × 12 pixels" and found["features"] == []
    assert found["model"].startswith("a linear model of how strongly parts of the image answer")
    assert found["curve"] and not found["importance"]
    assert "the labels of test.npz are public" in found["sentence"] and found["warnings"] == []
    assert "Warning" not in done.out
    assert "test.npz" in done.out and "held-out noisy labels" in done.out
    report = (people / "model" / "report.html").read_text()
    assert "from gray images of 12 × 12 pixels" in report and "0 feature" not in report
    assert labeldp("predict", "model", "new.npz", "--out", "p.csv").status == 0
    rows = list(csv.DictReader((people / "p.csv").read_text().splitlines()))
    assert [row["row"] for row in rows] == [str(number) for number in range(200)]
    right = np.array([row["prediction"] for row in rows]) == np.load(people / "test.npz")["labels"].astype(str)
    assert right.mean() == found["test"]["accuracy"]
    assert all(abs(sum(float(row[f"probability_{k}"]) for k in range(4)) - 1) < 1e-9 for row in rows)
    again = labeldp(*LINEAR, "--test", "test.npz", PUBLIC)
    assert (again.status, again.out, again.err) == (0, done.out, DONE)


@pytest.mark.parametrize("stages", [(), pytest.param(("--stages", "2"), marks=pytest.mark.slow)])
@pytest.mark.usefixtures("curves")
def test_trust_in_nobody_takes_a_linear_model_by_default(
    labeldp: Callable[..., Ran], people: Path, stages: tuple[str, ...]
) -> None:
    asked = (*LOCAL, "--epsilon", "2", *stages, "--test", "test.npz", PUBLIC, "--diagnostics")
    done = labeldp(*asked)
    assert done.status == 0, done.err
    found = json.loads((people / "model" / "summary.json").read_text())
    learned = "in 2 stages" if stages else "in one stage"
    assert found["test"]["accuracy"] > 0.9 and found["model"].endswith(f"learned from noisy labels {learned}")
    assert "answer to wavelets and to filters" in found["model"] and "--model auto" in found["command"]
    kinds = [each["mechanism"].partition(",")[0] for each in found["certificate"]]
    assert kinds.count("RandomizedResponseWithPrior") == len(stages) // 2 and kinds[0] == "RandomizedResponse"
    assert found["curve"] and found["accuracy"]
    assert "ε = 2, δ = 0 · local" in done.out
    again = labeldp(*asked)
    assert (again.status, again.out, again.err) == (0, done.out, DONE)
    assert labeldp("predict", "model", "new.npz", "--out", "p.csv").status == 0
    rows = list(csv.DictReader((people / "p.csv").read_text().splitlines()))
    right = np.array([row["prediction"] for row in rows]) == np.load(people / "test.npz")["labels"].astype(str)
    assert right.mean() == found["test"]["accuracy"]


@pytest.mark.slow
def test_a_test_part_is_used_where_it_is_named_and_not_otherwise(labeldp: Callable[..., Ran], people: Path) -> None:
    both = ["both.npz" if word == "bars.npz" else word for word in LINEAR]
    assert labeldp(*both).status == 0
    found = json.loads((people / "model" / "summary.json").read_text())
    assert found["rows"] == 500 and found["test"] is None and "are public" not in found["sentence"]
    done = labeldp(*both, "--out", "tested", "--test", "both.npz", PUBLIC)
    assert done.status == 0, done.err
    tested = json.loads((people / "tested" / "summary.json").read_text())
    assert tested["test"]["file"] == "both.npz (test part)" and tested["test"]["rows"] == 200
    assert "the labels of both.npz (test part) are public" in tested["sentence"]
    assert tested["accuracy"] == found["accuracy"]  # the same releases


def without_torch(name: str) -> Any:
    if "networks" in name:
        raise ModuleNotFoundError("networks need torch: pip install '.[torch]'", name="torch")
    return import_module(name)


def test_networks_without_torch_are_refused_in_a_sentence(
    labeldp: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "import_module", without_torch)
    refused(labeldp(*LOCAL, "--model", "network"), people, "networks need torch: pip install '.[torch]'")
    refused(labeldp(*CENTRAL, "--model", "distilled"), people, "networks need torch")
    assert not (people / "model.training").exists()


def test_networks_that_were_charged_stay_or_are_refused(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their learner needs torch, so that another one stands in for it here; `tests/networks` has a fit of them."""

    def asked(epsilon: float) -> job.Job:
        budget = ldp.Budget(8, 1e-6)
        request = fit_request("labels", ldp.Classes(4), epsilon, 1e-6, "bars", trust="central")
        rows, _ = job.read_rows(request, str(people / "bars.npz"), None)
        return job.prepare(request, rows, people / "l.ledger", new_budget=budget)

    def charged(epsilon: float) -> str:
        """Charge a step, and return whose the stored request is."""
        task = asked(epsilon)
        mechanism = ldp.RandomizedResponse(domain=task.rows.domain, epsilon=epsilon)
        release = task.curator.release(mechanism, rng=ldp.SystemRandomness(), step="labels")
        request = task.account.find_request(task.account.requested(release.certificate.entries[0].id) or "")
        assert request is not None
        return request.options["chosen"]

    networks = replace(catalog.LEARNERS["distilled"], central="labeldp.learners.linear:Linear", options=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(catalog.LEARNERS, "distilled", networks)
        patch.setattr(auto, "find_spec", lambda name: object())
        patch.setattr(auto, "LEAST_IMAGES", 501)
        assert charged(1) == "central linear", "too few images for networks"
        patch.setattr(auto, "LEAST_IMAGES", 500)
        assert asked(1).choice.model == "linear", "what was charged stays"
        assert charged(2) == "central distilled"
    monkeypatch.setattr(auto, "find_spec", lambda name: None)
    monkeypatch.setattr(catalog, "import_module", without_torch)
    with pytest.raises(InputError, match=r"networks need torch: pip install '\.\[torch\]'"):
        asked(2)
    assert asked(0.5).choice.model == "linear", "without torch a new fit is linear"


def test_labels_of_images_outside_are_refused_and_nothing_is_charged(labeldp: Callable[..., Ran], people: Path) -> None:
    ran = labeldp(*LINEAR, "--classes", "3")
    assert ran.status == 1 and "Some labels are missing or not among the 3 classes" in ran.err
    assert not (people / "model").exists() and "  0 %" in labeldp("ledger", "show", "l.ledger").out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((*LOCAL, "--prior", "clusters"), ("--prior clusters goes with --trust central",)),
        ((*LOCAL, "--model", "boosting"), ("--model boosting is not for images",)),
        ((*LOCAL, "--delta", "1e-6"), ("--delta goes with --trust central",)),
        ((*CENTRAL, "--model", "network"), ("--model network goes with --trust local", "or distilled")),
        ((*LINEAR, "--features", "a"), ("--features and --id are for tables",)),
        ((*LINEAR, "--id", "id"), ("--features and --id are for tables",)),
        ((*LINEAR, "--label", "digit"), ("one of labels, named 'digit'",)),
        ((*LINEAR, "--test", "bars.npz", PUBLIC), ("holds private records",)),
        ((*LINEAR, "--test", "copy.npz", PUBLIC), ("holds private records",)),
        (
            (*LINEAR, "--test", "small.npz", PUBLIC),
            ("must hold gray images of 12 × 12 pixels, not gray images of 6 × 6",),
        ),
        ((*LINEAR, "--test", "people.csv", PUBLIC), ("people.csv",)),
        ((*LINEAR, "--classes", "4", "--test", "fives.npz", PUBLIC), ("--test: labels of fives.npz must lie in",)),
        (("fit", "one.png", *LINEAR[2:]), ("one.png is neither a table", "nor a source of images")),
        (("fit", "one.png", *LOCAL[2:], "--model", "network"), ("nor a source of images",)),
        (("fit", "nowhere", *LINEAR[2:]), ("no such file or folder: nowhere",)),
        (("fit", "nowhere.npz", *LINEAR[2:]), ("no such file or folder: nowhere.npz",)),
        ((*LINEAR, "--init", "model"), ("--init goes with",)),
    ],
)
def test_what_does_not_go_together_is_refused(
    labeldp: Callable[..., Ran], people: Path, options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """One clear error; nothing is charged and nothing is written."""
    data = bars(500, 0)
    order = np.random.default_rng(0).permutation(500)
    np.savez(people / "copy.npz", images=data["images"][order], labels=data["labels"][order])
    np.savez(people / "small.npz", images=np.zeros((9, 6, 6), dtype=np.uint8), labels=np.zeros(9, dtype=int))
    (people / "one.png").write_bytes(b"\x89PNG")
    refused(labeldp(*options), people, *words)


@pytest.mark.parametrize(
    ("shape", "words"),
    [((40, 6, 6), "at least 8 pixels"), ((40, 12, 10), "square"), ((40, 10), "shape"), ((0, 12, 12), "at least one")],
)
def test_images_of_another_kind_are_refused(
    labeldp: Callable[..., Ran], people: Path, shape: tuple[int, ...], words: str
) -> None:
    np.savez(people / "bars.npz", images=np.zeros(shape, dtype=np.uint8), labels=np.arange(shape[0]) % 4)
    refused(labeldp(*LINEAR), people, words)


def test_too_few_images_are_refused(labeldp: Callable[..., Ran], people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ImageMap.__init__.__kwdefaults__, "filters", 200)
    np.savez(people / "bars.npz", **bars(4, 0))
    refused(labeldp(*LINEAR), people, "a fit needs at least 20 records, and this one has 4")


def test_too_few_images_for_noisy_labels_are_refused(labeldp: Callable[..., Ran], people: Path) -> None:
    np.savez(people / "bars.npz", **bars(30, 0))
    refused(labeldp(*LOCAL), people, "one stage and an evaluation need at least 40 records")


def test_models_of_tables_and_of_images_take_their_own_data(labeldp: Callable[..., Ran], people: Path) -> None:
    assert labeldp(*LINEAR).status == 0
    for data, words in [
        ("people.csv", "the model takes gray images of 12 × 12 pixels"),
        ("nothing.npz", "nothing.npz"),
        ("both.npz", "must have one array of images"),
        ("odd.npz", "not gray images of 8 × 8"),
    ]:
        np.savez(people / "odd.npz", images=np.zeros((3, 8, 8), dtype=np.uint8))
        ran = labeldp("predict", "model", data, "--out", "p.csv")
        assert ran.status == 1 and words in ran.err and ran.err.count("\n") == 1, ran
    ran = labeldp("predict", "model", "new.npz", "--out", "p.csv", "--id", "id")
    assert ran.status == 1 and "--id is for tables" in ran.err
    table = ("fit", "people.csv", "--label", "bought", "--classes", "no,yes", "--epsilon", "1")
    assert labeldp(*table, *account("p", ledger="m.ledger"), "--model", "linear", "--out", "table").status == 0
    ran = labeldp("predict", "table", "new.npz", "--out", "p.csv")
    assert ran.status == 1 and "is a model of tables" in ran.err and not (people / "p.csv").exists()
    ran = labeldp("fit", "people.csv", "--label", "bought", *FIT[4:], *LOCAL[len(FIT) :], "--model", "network")
    refused(ran, people / "none", "--model network is not for a table")
