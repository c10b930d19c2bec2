"""Predictions of a model in Spark are those of the command, and so are debiased scores."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp import spark as room
from labeldp.curator import Curator
from labeldp.fit import fit_file, fit_request, predict_file
from labeldp.mechanisms import LocalHashing
from labeldp.tables import released_column, released_values
from spark.frames import frame

DOMAIN = ldp.Classes(("no", "yes", "perhaps"))


@pytest.mark.parametrize("classes", [True, False])
def test_predictions_are_those_of_one_machine(spark: Any, people: Path, classes: bool) -> None:
    asked = {"label": "bought", "domain": ldp.Classes(("no", "yes"))} if classes else {}
    if not classes:
        asked = {"label": "hours", "domain": ldp.Interval(0, 80)}
    asked_for = fit_request(**asked, epsilon=20.0, delta=0.0, dataset="people", features=("age", "region"))
    model = people / "model"
    fit_file(asked_for, str(people / "people.csv"), ledger=str(people / "people.ledger"), out=str(model))
    predict_file(str(model), str(people / "new_people.csv"), out=str(people / "alone.parquet"), id_column="id")
    alone = pd.read_parquet(people / "alone.parquet").set_index("id").sort_index()
    source = spark.read.csv((people / "new_people.csv").as_uri(), header=True, inferSchema=True)
    found = room.predict(source.repartition(3), model)
    assert found.columns[-len(alone.columns) :] == list(alone.columns)
    rows = pd.DataFrame([row.asDict() for row in found.collect()]).set_index("id").sort_index()
    assert rows.index.tolist() == alone.index.astype(int).tolist()
    for name in alone.columns:
        one, other = rows[name].to_numpy(), alone[name].to_numpy()
        assert (one == other).all() if one.dtype == object else np.allclose(one, other)
    for wrong, message in (
        (source.drop("age"), "exactly one column 'age'"),
        (found, "must not have the column 'prediction'"),
    ):
        with pytest.raises(ldp.privacy.InputError, match=message):
            room.predict(wrong, model)
    with pytest.raises(ldp.privacy.InputError):
        room.predict(source, people)


@pytest.mark.parametrize("kind", [ldp.RandomizedResponse, ldp.UnaryEncoding, LocalHashing])
def test_debiased_accuracy_is_that_of_one_machine(spark: Any, kind: Any) -> None:
    rng, mechanism = np.random.default_rng(0), kind(domain=DOMAIN, epsilon=1)
    codes, predicted = rng.integers(0, 3, 500), rng.integers(0, 3, 500)
    ids = np.arange(500)
    curator = Curator(DOMAIN.decode(codes), domain=DOMAIN, budget=ldp.Budget(epsilon=1), ids=ids)
    release = curator.release(mechanism, rng=ldp.SystemRandomness())
    name = released_column(mechanism, "bought")
    columns = {"height": rng.normal(size=500), "prediction": DOMAIN.decode(predicted)}
    table = pa.table({name: released_values(mechanism, release.value).cast(pa.string()), **columns})
    found = room.debiased_accuracy(frame(spark, table, 3), mechanism=mechanism, noisy=name)
    alone = ldp.debiased_accuracy(release, predicted)
    assert all(getattr(found, name) == getattr(alone, name) for name in ("value", "low", "high", "level", "method"))
    for more, message in (
        ({"noisy": "nobody"}, "noisy must be one column"),
        ({"prediction": "height"}, "must be classes of the domain"),
        ({"mechanism": ldp.DiscreteLaplace(domain=ldp.Interval(0, 1), epsilon=1)}, "must be what released the labels"),
    ):
        with pytest.raises(ldp.privacy.InputError, match=message):
            room.debiased_accuracy(frame(spark, table), **({"mechanism": mechanism, "noisy": name} | more))
