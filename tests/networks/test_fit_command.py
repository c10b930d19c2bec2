"""`labeldp fit` with networks: from images to predictions, killed and finished, first weights, and what is refused."""

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from cli.conftest import DONE, account
from labeldp import features
from labeldp.cli import main
from labeldp.curator import LedgerFile
from labeldp.features import PatchFilters
from labeldp.fit import Bundle, auto
from labeldp.learners import catalog
from labeldp.networks import PRESETS, NetworkClassifier, Recipe, architectures, classifier, distillation
from labeldp.privacy import total_loss
from networks.conftest import Images

Said = Callable[..., tuple[int, str, str]]
FIT = ("fit", "bars.npz", "--label", "labels", "--classes", "4", *account("bars")[:-1])  # and a budget
CNN = (*FIT, "3", "--epsilon", "3", "--model", "network", "--stages", "2", "--epochs", "2", "--out", "model")
BEST = (
    *FIT,
    "1.5",
    "--epsilon",
    "1.5",
    "--delta",
    "1e-6",
    "--trust",
    "central",
    "--model",
    "distilled",
    "--out",
    "model",
)
AUTO = tuple(word for word in BEST if word not in ("--model", "distilled"))
BEST_LOCAL = (*FIT, "3", "--epsilon", "3", "--model", "distilled", "--out", "model")
FRESH = """
import json, sys
import numpy as np
import labeldp
from labeldp.fit.bundle import skops_io
skops_io()
assert "torch" not in sys.modules
model = labeldp.load("model")
print(json.dumps(model.predict_proba(np.load("new.npz")["images"][:5]).tolist()))
import torch, sklearn.externals.array_api_compat.torch as wrapped
assert wrapped.tensor is torch.tensor
"""
"""Loads a network in an interpreter that imported skops without torch."""


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "quick", (Recipe(batch=32, peak=0.05, augment=()),))
    first = Recipe(epochs=3, batch=32, peak=0.05)
    short = replace(distillation.SETTINGS, distilled=first, student=replace(first, epochs=2), taught=first)
    monkeypatch.setattr(distillation, "SETTINGS", short)
    monkeypatch.setattr(features, "PatchFilters", lambda **shape: PatchFilters(**shape, filters=20))


@pytest.fixture
def folder(training: Images, test: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with private images, public ones, and new ones without labels."""
    np.savez(tmp_path / "bars.npz", images=training[0], labels=training[1])
    np.savez(tmp_path / "test.npz", images=test[0], labels=test[1])
    np.savez(tmp_path / "new.npz", images=test[0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def labeldp(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run `labeldp ARGUMENTS` in that folder: status, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["labeldp", *arguments])
        try:
            main()
            status = 0
        except SystemExit as done:
            status = int(done.code or 0)
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def summary(folder: Path, name: str = "model") -> Any:
    return json.loads((folder / name / "summary.json").read_text())


def steps(folder: Path) -> list[tuple[str, str]]:
    """What the ledger was charged for, with the charges' ids."""
    entries = LedgerFile(folder / "l.ledger").dataset("bars").read().entries
    return [((entry.step or "").rpartition(": ")[2], entry.certificate.entries[0].id) for entry in entries]


@pytest.mark.parametrize(
    ("command", "names", "model"),
    [
        (
            (*CNN, "--prior", "clusters", "--trust", "central"),
            ["cluster prior", "stage 1", "stage 2", "evaluation"],
            "learned in 2 stages",
        ),
        (
            AUTO,
            ["linear", "evaluation"],
            "a linear model of noisy sums, and a compact convolutional network that learned",
        ),
        (BEST_LOCAL, ["labels", "evaluation"], "a linear model of noisy labels, and a compact convolutional network"),
    ],
)
def test_a_network_is_learned_stored_and_predicts(
    labeldp: Said,
    folder: Path,
    test: Images,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    names: list[str],
    model: str,
) -> None:
    monkeypatch.setattr(auto, "LEAST_IMAGES", 600)
    status, said, err = labeldp(*command, "--test", "test.npz", "--test-labels-are-public")
    assert status == 0, err
    assert [step for step, _ in steps(folder)] == names
    found = summary(folder)
    assert model in found["model"] and found["test"]["accuracy"] > 0.6
    assert found["curve"] is None and any("is not simulated" in note for note in found["notes"])
    charges, asked = LedgerFile(folder / "l.ledger").dataset("bars").charges, command[command.index("--epsilon") + 1]
    assert total_loss(charges).within(asked, "1e-6" if command is AUTO else "0")
    name = "auto" if command is AUTO else command[command.index("--model") + 1]
    assert f"--model {name}" in found["command"]
    assert labeldp("predict", "model", "new.npz", "--out", "p.csv")[0] == 0
    rows = list(csv.DictReader((folder / "p.csv").read_text().splitlines()))
    assert [int(row["row"]) for row in rows] == list(range(200))
    assert np.mean([int(row["prediction"]) for row in rows] == test[1]) == found["test"]["accuracy"]
    assert not (folder / "model.training").exists()
    assert labeldp(*command, "--test", "test.npz", "--test-labels-are-public") == (0, said, DONE)
    assert [step for step, _ in steps(folder)] == names


@pytest.mark.parametrize(("command", "epochs", "known"), [(CNN, 3, 2), (BEST, 4, 1)])
def test_a_killed_training_is_finished_by_the_same_command_with_the_same_charges(
    labeldp: Said, folder: Path, command: tuple[str, ...], epochs: int, known: int
) -> None:
    large = ("--dataset", "bars", "--epsilon", "30", "--delta", "1e-5")
    assert labeldp("ledger", "add", "l.ledger", *large)[0] == 0
    is_network, place = command is CNN, command.index("--new-budget")
    command = command[:place] + command[place + 2 :]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(epochs), *command], cwd=folder, capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    charged = steps(folder)
    assert len(charged) == known and list((folder / "model.training").rglob("*.pt")) and not (folder / "model").exists()
    other = ("--epochs", "3") if is_network else ("--network", "mlp")
    status, _, err = labeldp(*command, *other)
    assert status == 1 and "holds checkpoints of another fit" in err and err.count("\n") == 2
    seen: list[int] = []
    status, _, err = finished(labeldp, command, seen)
    assert status == 0, err
    assert steps(folder)[:known] == charged and len({step for step, _ in steps(folder)}) == len(steps(folder))
    assert seen and seen[0] > 1  # the epochs before were kept
    assert not (folder / "model.training").exists() and not list(folder.glob(".*.partial"))
    assert labeldp("certificate", "model")[0] == 0


KILLED = """
import os, signal, sys
from dataclasses import replace
from labeldp import cli, features
from labeldp.features import PatchFilters
from labeldp.networks import PRESETS, Recipe, distillation
from labeldp.privacy import total_loss
from labeldp.networks.classifier import Checkpoint
import torch
torch.set_num_threads(1)

PRESETS["quick"] = (Recipe(batch=32, peak=0.05, augment=()),)
distillation.SETTINGS = replace(
    distillation.SETTINGS,
    distilled=Recipe(epochs=3, batch=32, peak=0.05), student=Recipe(epochs=2, batch=32, peak=0.05)
)
features.PatchFilters = lambda **shape: PatchFilters(**shape, filters=20)
left = int(sys.argv.pop(1))
save = Checkpoint.save

def dying(self, state):
    global left
    save(self, state)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

Checkpoint.save = dying
cli.main()
"""


def finished(labeldp: Said, command: tuple[str, ...], seen: list[int]) -> tuple[int, str, str]:
    """Run a command and note the epochs that are trained."""
    with pytest.MonkeyPatch.context() as patch:
        train = classifier.train

        def watched(*arguments: Any) -> Any:
            for record in train(*arguments):
                seen.append(record.epoch)
                yield record

        patch.setattr(classifier, "train", watched)
        patch.setattr(NetworkClassifier, "dry_run", lambda *_: None)  # it trains an epoch of its own
        return labeldp(*command)


def test_first_weights_come_from_other_labels_and_the_certificate_says_so(
    labeldp: Said, folder: Path, training: Images
) -> None:
    images, labels = training
    np.savez(folder / "open.npz", images=images[::-1], labels=labels[::-1])
    public = ["open.npz" if word == "bars.npz" else word for word in CNN]
    public = ["open" if word in ("bars", "model") else word for word in public]
    assert labeldp(*public)[0] == 0
    LedgerFile(folder / "l.ledger").add("bars", ldp.Budget(epsilon=3))
    status, said, err = labeldp(*CNN, "--init", "open")
    assert status == 0, err
    condition = "the labels that the first weights (open) were learned from are public, or those of other records"
    assert condition in labeldp("certificate", "model")[1]
    found = summary(folder)
    assert "from the weights of an earlier model" in found["model"] and "--init open" in found["command"]
    audit = ("audit", "model", "--ledger", "l.ledger", "--data", "bars.npz")
    assert "--init names its directory" in labeldp(*audit)[1]
    status, said, err = labeldp(*audit, "--init", "open")
    assert status == 0 and "the values that were stored" in " ".join(said.split()), said + err
    status, _, err = labeldp(*CNN, "--init", "model", "--revision", "two", "--out", "again")
    assert status == 1 and "was learned from labels of a dataset 'bars', like this one" in err
    assert len(steps(folder)) == 3


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((*CNN, "--init", "nothing"), "is not a directory that labeldp fit wrote"),
        ((*CNN, "--delta", "1e-6"), "--delta goes with --trust central"),
        ((*CNN, "--epsilon", "0"), "epsilon"),
        ((*BEST, "--stages", "2"), "--stages"),
        ((*BEST, "--delta", "2"), "delta must lie in"),
        ((*BEST_LOCAL, "--delta", "1e-6"), "--delta goes with --trust central"),
    ],
)
def test_bad_options_charge_nothing(labeldp: Said, folder: Path, command: tuple[str, ...], words: str) -> None:
    refused(labeldp(*command), folder, words)


@pytest.mark.parametrize("command", [CNN, (*CNN, "--prior", "clusters", "--trust", "central"), BEST])
@pytest.mark.parametrize(
    ("count", "side", "words"), [(39, 12, "and an evaluation need at least"), (600, 5, "at least 8 pixels")]
)
def test_few_or_small_images_charge_nothing(
    labeldp: Said, folder: Path, command: tuple[str, ...], count: int, side: int, words: str
) -> None:
    np.savez(folder / "bars.npz", images=np.zeros((count, side, side), dtype=np.uint8), labels=np.arange(count) % 4)
    refused(labeldp(*command), folder, words)


def refused(ran: tuple[int, str, str], folder: Path, words: str) -> None:
    """One line that says `words`; no ledger, no output."""
    status, _, err = ran
    assert status != 0 and words in err and err.count("\n") == 1 and "Traceback" not in err, err
    assert not list(folder.glob("*.ledger")) and not list(folder.glob("model*")) and not list(folder.glob(".*.partial"))


def test_a_stored_network_answers_as_before_and_needs_torch(
    labeldp: Said, folder: Path, test: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert labeldp(*BEST)[0] == 0
    one, two = (Bundle.read(folder / "model").model.predict_proba(test[0]) for _ in range(2))
    assert np.array_equal(one, two)
    done = subprocess.run([sys.executable, "-c", FRESH], cwd=folder, capture_output=True, text=True, check=True)
    assert np.allclose(json.loads(done.stdout), one[:5], atol=1e-4)

    def missing(name: str) -> Any:
        raise ModuleNotFoundError("networks need torch: pip install '.[torch]'", name="torch")

    monkeypatch.setattr(catalog, "import_module", missing)
    status, _, err = labeldp("predict", "model", "new.npz", "--out", "p.csv")
    assert status == 1 and "networks need torch: pip install" in err and not (folder / "p.csv").exists()


def test_every_recipe_is_a_preset_and_epochs_change_it(training: Images) -> None:
    from labeldp.learners import IMAGE_NETWORKS
    from labeldp.networks.classifier import STAGE_PRESETS

    names = {STAGE_PRESETS.get(name, "quick") for name in IMAGE_NETWORKS}
    assert IMAGE_NETWORKS.keys() <= architectures.NETWORKS.keys() and names <= PRESETS.keys()
    assert all(replace(recipe, epochs=1).epochs == 1 for name in names for recipe in PRESETS[name])
