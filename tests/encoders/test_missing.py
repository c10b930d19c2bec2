"""What is refused where the packages of an encoder are missing, or do not fit the data: nothing is charged."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.cli import main
from labeldp.encoders import ENCODERS, NetworkFeatures, networks
from labeldp.learners import SoftmaxClassifier
from labeldp.privacy import InputError

IMAGES = np.random.default_rng(0).integers(0, 255, (40, 8, 8), dtype=np.uint8)
TEXTS = ["a cat", "a bank"] * 20
LABELS = np.arange(40) % 2


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every package of an encoder be missing."""
    monkeypatch.setattr(networks, "find_spec", lambda name: None)


@pytest.mark.parametrize(("name", "records", "extra"), [("imagenet", IMAGES, "image"), ("text", TEXTS, "text")])
@pytest.mark.parametrize("trust", ["local", "central"])
def test_a_missing_extra_is_named_and_nothing_is_charged(name: str, records: Any, extra: str, trust: str) -> None:
    command = rf"pip install 'labeldp\[{extra}-encoder\]'"
    model = ldp.LabelDPClassifier(epsilon=1, classes=(0, 1), trust=trust, representation=name)
    with pytest.raises(InputError, match=command):
        model.fit(records, LABELS)
    curator = ldp.Curator(LABELS, domain=ldp.Classes(2), budget=ldp.Budget(1))
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=command):
        if trust == "central":
            ldp.fit_linear(records, curator, epsilon=1, rng=rng, representation=name)
        else:
            head: Any = SoftmaxClassifier(representation=name)
            ldp.fit_multistage(records, curator, classifier=head, epsilon=1, stages=1, rng=rng)
    assert not curator.ledger.charges


def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: str, *arguments: str) -> str:
    """Return what `labeldp fit` says as it refuses, after checking that it wrote no ledger."""
    options = [
        "--classes",
        "0,1",
        "--epsilon",
        "1",
        "--ledger",
        "new.ledger",
        "--dataset",
        "d",
        "--out",
        "model",
        "--new-budget",
        "1",
    ]
    monkeypatch.setattr(sys, "argv", ["labeldp", "fit", data, *options, *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (1, 2) and not Path("new.ledger").exists() and not Path("model").exists()
    return capsys.readouterr().err


def test_the_command_line_refuses_before_it_charges(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("squares.npz", images=IMAGES, labels=LABELS)
    rows = [f"{text},{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    Path("texts.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    for data, label, name, sentence in (
        ("squares.npz", "labels", "imagenet", "--encoder 'imagenet' needs torch"),
        ("texts.csv", "label", "text", "--encoder 'text' needs wordllama: pip install"),
        ("squares.npz", "labels", "text", "--encoder must be 'imagenet' for images"),
        ("texts.csv", "label", "imagenet", "--encoder must be 'text' for tables"),
    ):
        said = told(monkeypatch, capsys, data, "--label", label, "--encoder", name)
        assert sentence in " ".join(said.split())


def test_no_other_encoder_is_known() -> None:
    curator = ldp.Curator(LABELS, domain=ldp.Classes(2), budget=ldp.Budget(1))
    with pytest.raises(InputError, match="representation must be 'imagenet' or 'text'"):
        ldp.fit_linear(IMAGES, curator, epsilon=1, rng=np.random.default_rng(0), representation="clip")
    assert not curator.ledger.charges


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_a_description_is_read_without_the_packages(name: str) -> None:
    shape, names = ((8, 8), ()) if name == "imagenet" else ((), ("text",))
    features = NetworkFeatures(name, "one 1.0", shape, names)
    assert NetworkFeatures.from_json(features.to_json()) == features
    with pytest.raises(InputError, match="pip install"):
        features.transform(IMAGES if shape else TEXTS)


@pytest.mark.parametrize(
    "changes",
    [{"network": "other"}, {"version": 1}, {"shape": ["8"]}, {"names": ["a"]}, {"shape": []}, {"names": None}],
)
def test_a_damaged_description_is_refused(changes: dict[str, Any]) -> None:
    content = NetworkFeatures("imagenet", "one 1.0", (8, 8)).to_json() | changes
    with pytest.raises(InputError, match="does not describe features of a network"):
        NetworkFeatures.from_json(content)
