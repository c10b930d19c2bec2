"""A model's directory: what is refused when it is read, and what a disk that fills up leaves of it."""

import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeRegressor
from skops import io

import labeldp as ldp
from labeldp.curator import LedgerFile
from labeldp.features import ImageMap, ScatterFilters
from labeldp.fit import DESCRIPTION, ESTIMATOR, TRUSTED, Bundle, fit_file, parse_fit, predict_file, read_certified
from labeldp.fit.bundle import _dumped, certify
from labeldp.learners import (
    CellClassifier,
    CellRegressor,
    CubePartition,
    KMeansPartition,
    MedianPartition,
    NeighborsClassifier,
    NeighborsRegressor,
    TreePartition,
    fit_cells,
    fit_linear,
)
from people import table_of_people

Disk = Callable[[int], AbstractContextManager[None]]

REQUEST = parse_fit(
    label="bought",
    classes="no,yes",
    epsilon="1",
    features=None,
    stages=None,
    delta="0",
    dataset="people",
    model="linear",
)


def fit(folder: Path, out: str) -> None:
    fit_file(REQUEST, str(folder / "people.csv"), ledger=str(folder / "people.ledger"), out=str(folder / out))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with people.csv, new.csv, people.ledger and the directory `model`, to be copied."""
    folder = tmp_path_factory.mktemp("fitted")
    table_of_people(300, seed=1).to_csv(folder / "people.csv", index=False)
    table_of_people(50, seed=2).drop(columns="bought").to_csv(folder / "new.csv", index=False)
    fit(folder, "model")
    return folder


@pytest.fixture
def folder(fitted: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_model_s_file_says_nothing_of_when_and_where_it_was_written(folder: Path) -> None:
    with ZipFile(folder / "model" / ESTIMATOR) as file:
        assert {member.date_time for member in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        schema = file.read("schema.json").decode()
        numbers = [int(number) for number in re.findall(r'"__id__": (\d+)', schema)]
        assert max(numbers) <= len(numbers)
        assert set(re.findall(r'"file": "(.*?)"', schema)) | {"schema.json"} == set(file.namelist())
        assert all(re.fullmatch(r"[0-9]+\.np[yz]|schema\.json", name) for name in file.namelist())


def test_arrays_that_are_one_stay_one() -> None:
    shared = np.arange(4.0)
    content = [shared, {"file": shared, "__id__": 7}, np.arange(4.0), "text", "text"]
    dumped = _dumped(content)
    again = io.loads(dumped)
    assert again[0] is again[1]["file"] and again[2] is not again[0] and again[1]["__id__"] == 7
    assert dumped == _dumped([shared, {"file": shared, "__id__": 7}, np.arange(4.0), "text", "te" + "xt"[:]])
    assert len(ZipFile(BytesIO(dumped)).namelist()) == 3


def refusal(model: Path) -> str:
    """What reading the directory says, after whoever changed it wrote a certificate that agrees."""
    certify(model, read_certified(model)[0])
    with pytest.raises(ldp.privacy.InputError) as caught:
        Bundle.read(model)
    return str(caught.value)


def ran(values: Any) -> Any:
    """Stands for code that a planted file would run."""
    pytest.fail("a type that is not trusted was loaded")


def test_a_model_of_types_that_are_not_trusted_is_refused(folder: Path) -> None:
    io.dump(FunctionTransformer(ran), folder / "model" / ESTIMATOR)
    assert "model.skops holds types that labeldp does not load" in refusal(folder / "model")


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_a_model_cut_short_is_refused(folder: Path, keep: float) -> None:
    path = folder / "model" / ESTIMATOR
    os.truncate(path, int(keep * path.stat().st_size) if isinstance(keep, float) else keep)
    assert "model.skops cannot be loaded" in refusal(folder / "model")


def test_junk_for_a_model_is_refused(folder: Path) -> None:
    (folder / "model" / ESTIMATOR).write_text("junk")
    assert "model.skops cannot be loaded (BadZipFile)" in refusal(folder / "model")
    assert f"with which labeldp {ldp.__version__} wrote it; the same labeldp fit" in refusal(folder / "model")
    shutil.make_archive(str(folder / "empty"), "zip", folder / "model")
    (folder / "empty.zip").replace(folder / "model" / ESTIMATOR)
    assert "model.skops cannot be loaded (KeyError)" in refusal(folder / "model")


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"classes": None},
        {"classes": ["no"]},
        {"noise": "much"},
        {"noise": [[1.0], [1.0, 2.0]]},
        {"features": {}},
        {"features": []},
        "classes",
        "noise",
        "features",
    ],
)
def test_a_damaged_description_is_refused(folder: Path, change: Any) -> None:
    path = folder / "model" / DESCRIPTION
    content = json.loads(path.read_text())
    if isinstance(change, str):
        del content[change]
    else:
        content.update(change)
    path.write_text(json.dumps(content))
    assert "model.json is damaged" in refusal(folder / "model")


def test_a_model_that_was_changed_is_refused(folder: Path) -> None:
    with (folder / "model" / ESTIMATOR).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ldp.privacy.InputError, match=r"is not what was certified: model\.skops changed"):
        Bundle.read(folder / "model")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_prediction_on_a_full_disk_leaves_nothing(folder: Path, name: str, small_disk: Disk) -> None:
    before = sorted(os.listdir(folder))
    with pytest.raises(ldp.LabelDPError, match=rf"the disk is full.*{name} was not written"), small_disk(512):
        predict_file(str(folder / "model"), str(folder / "new.csv"), out=str(folder / name))
    assert sorted(os.listdir(folder)) == before
    assert predict_file(str(folder / "model"), str(folder / "new.csv"), out=str(folder / name)) == 50


def test_a_fit_on_a_full_disk_leaves_no_directory_and_is_finished_by_the_same_command(
    folder: Path, small_disk: Disk
) -> None:
    before = sorted(os.listdir(folder))
    largest = max(path.stat().st_size for path in (folder / "model").iterdir())
    with (  # room for the pages of the ledger that a fit writes, but not for the model
        pytest.raises(ldp.LabelDPError, match=r"the disk is full.*model\.skops was not written"),
        small_disk(largest - 1),
    ):
        fit(folder, "again")
    assert sorted(os.listdir(folder)) == before
    fit(folder, "again")
    assert LedgerFile(folder / "people.ledger").dataset("people").spent.epsilon() == 1.0


def test_a_fit_whose_ledger_does_not_fit_on_the_disk_charges_nothing(folder: Path, small_disk: Disk) -> None:
    (folder / "people.ledger").unlink()
    before = sorted(os.listdir(folder))
    with pytest.raises(ldp.privacy.LedgerError, match="disk"), small_disk(512):
        fit(folder, "again")
    assert sorted(os.listdir(folder)) == before


PARTITIONS: list[Any] = [
    CubePartition(0.5, bounds=(0, 1)),
    KMeansPartition(4),
    MedianPartition(4),
    TreePartition(DecisionTreeRegressor(max_leaf_nodes=4)),
    TreePartition(RandomTreesEmbedding(3, max_depth=2, random_state=0)),
    None,
]


@pytest.mark.parametrize("domain", [ldp.Interval(0, 1), ldp.Classes(2)], ids=["numbers", "classes"])
def test_every_learner_of_cells_and_neighbors_is_read_again(tmp_path: Path, domain: Any) -> None:
    """Whatever is written has trusted types only, and predicts the same."""
    features, rng = np.random.default_rng(0).random((200, 2)), np.random.default_rng(1)
    numbers = isinstance(domain, ldp.Interval)
    labels: Any = features[:, 0] if numbers else (features[:, 0] > 0.5).astype(int)

    def holder(content: Any, of: Any) -> ldp.Curator:
        return ldp.Curator(content, domain=of, budget=ldp.Budget(epsilon=1))

    kind: Any = ldp.DiscreteLaplace if numbers else ldp.UnaryEncoding
    noisy = holder(labels, domain).release(kind(domain=domain, epsilon=1), rng=rng)
    local: Any = CellRegressor if numbers else CellClassifier
    found: list[Any] = [(NeighborsRegressor if numbers else NeighborsClassifier)().fit(features, noisy)]
    for partition in PARTITIONS:
        found.append(local(partition).fit(features, noisy))
        central = fit_cells(features, holder(labels, domain), epsilon=1, rng=rng, partition=partition)
        found.append(central.value.estimator)
    for place, estimator in enumerate(found):
        vars(estimator).pop("certificate_", None)  # the model's, written beside it
        path = tmp_path / f"{place}.skops"
        path.write_bytes(_dumped(estimator))
        again = io.load(path, trusted=sorted(TRUSTED))
        assert np.array_equal(again.predict(features), estimator.predict(features))


@pytest.mark.parametrize("representation", [ScatterFilters(side=12), ImageMap(side=12, filters=7)], ids=["one", "both"])
def test_a_linear_model_of_wavelets_is_read_again(tmp_path: Path, representation: Any) -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (60, 12, 12)), rng.integers(0, 2, 60)
    curator = ldp.Curator(labels, domain=ldp.Classes(2), budget=ldp.Budget(1, 1e-6))
    model = fit_linear(images, curator, epsilon=1, delta=1e-6, rng=rng, representation=representation).value
    path = tmp_path / "model.skops"
    path.write_bytes(_dumped(model.estimator))
    again = io.load(path, trusted=sorted(TRUSTED))
    assert np.array_equal(again.predict_proba(images), model.estimator.predict_proba(images))


def test_a_file_without_a_column_of_the_model_says_which(folder: Path) -> None:
    frame = pd.read_csv(folder / "new.csv")
    frame.drop(columns="age").to_csv(folder / "lacking.csv", index=False)
    with pytest.raises(ldp.privacy.InputError, match=r"lacks columns of the model: .age.\. Add them") as caught:
        predict_file(str(folder / "model"), str(folder / "lacking.csv"), out=str(folder / "p.csv"))
    assert "header" not in str(caught.value)
    frame.set_axis([f"{100 + i}" for i in range(frame.shape[1])], axis=1).to_csv(folder / "lacking.csv", index=False)
    with pytest.raises(ldp.privacy.InputError, match="does it have a header row"):
        predict_file(str(folder / "model"), str(folder / "lacking.csv"), out=str(folder / "p.csv"))


def test_load_predicts_data_frames_as_the_command_line_does(folder: Path) -> None:
    model = ldp.load(folder / "model")
    frame = table_of_people(50, seed=2)
    predict_file(str(folder / "model"), str(folder / "new.csv"), out=str(folder / "predicted.csv"))
    written = pd.read_csv(folder / "predicted.csv")
    for given in (frame, pl.DataFrame(frame.drop(columns="bought")), pd.read_csv(folder / "new.csv")):
        assert model.predict(given).tolist() == written["prediction"].tolist()
        np.testing.assert_allclose(model.predict_proba(given)[:, 1], written["probability_yes"])
    assert model.classes_.tolist() == ["no", "yes"] and model.evaluation is None
    assert model.certificate == read_certified(folder / "model")[0]
    right = np.mean(model.predict(frame) == frame["bought"].to_numpy())
    assert model.score(frame, ldp.Public(frame["bought"], why="made up")) == right
    read = io.loads(io.dumps(model), trusted=io.get_untrusted_types(data=io.dumps(model)))
    assert (read.predict_proba(frame) == model.predict_proba(frame)).all() and read.certificate == model.certificate


def test_load_refuses_what_is_no_model_and_features_that_it_cannot_take(folder: Path) -> None:
    model = ldp.load(str(folder / "model"))
    with pytest.raises(ldp.privacy.InputError, match="must be a pyarrow table, or a data frame"):
        model.predict(np.ones((3, 4)))
    with pytest.raises(ldp.privacy.InputError, match="needs exactly one feature column 'age'"):
        model.predict(table_of_people(50, seed=2).drop(columns="age"))
    with pytest.raises(ldp.privacy.InputError, match="is not a directory that labeldp fit wrote"):
        ldp.load(folder)
    (folder / "model" / DESCRIPTION).write_text("{}")
    with pytest.raises(ldp.privacy.InputError, match=r"is not what was certified: model\.json changed"):
        ldp.load(folder / "model")
