"""What `--model auto` takes, over a grid of public numbers: as recorded, whatever code decides it."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp import encoders
from labeldp.curator import Ledger
from labeldp.fit import Described, GivenRows, auto, choose_model, fit_request, prepare
from labeldp.fit.rows import ImageRows
from labeldp.learners import LEARNERS
from labeldp.privacy import Request

RECORDED = Path(__file__).with_name("auto.json")

DOMAINS = {"2 classes": ldp.Classes(2), "10 classes": ldp.Classes(10), "numbers": ldp.Interval(0, 10)}

SIZES = (30, 600, 8_000)

EPSILONS = (0.001, 0.1, 0.5, 1.0, 4.0)

OPTIONS: dict[str, dict[str, Any]] = {
    "stages": {"stages": 2},
    "prior": {"prior": "clusters"},
    "cells": {"cells": 4},
    "encoder": {"encoder": "imagenet"},
    "encoder and stages": {"encoder": "imagenet", "stages": 2},
}


KINDS = {
    getattr(import_module(path.partition(":")[0]), path.partition(":")[2])
    for entry in LEARNERS.values()
    for path in {entry.local, entry.central, entry.numbers} - {""}
    if "networks" not in path
}
"""The classes of all learners without torch."""


def table(records: int, categories: int = 0) -> pa.Table:
    """Return three features, of which some are categories."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{number}": rng.normal(size=records) for number in range(3 - categories)}
    columns |= {f"c{number}": list(rng.choice(list("abc"), records)) for number in range(categories)}
    return pa.table(columns)


def taken(rows: Any, request: Request) -> str:
    """Return what a fit takes, or why it is refused."""
    ledger = Ledger(request.budget, "people")
    try:
        job = prepare(request, rows, ledger)
    except ldp.privacy.InputError as error:
        return "refused because networks need torch" if "torch" in str(error) else "refused"
    learner = job.learner
    options = {field.name: getattr(learner, field.name) for field in fields(learner) if field.name != "name"}
    set_options = {name: value for name, value in options.items() if isinstance(value, int | str)}
    words = " ".join(f"{name}={value}" for name, value in sorted(set_options.items()))
    answers = job.settings
    return f"{type(learner).__name__} {learner.name} {words} | {answers.trust} {answers.epsilon:g} {answers.delta:g}"


def cases() -> Iterator[tuple[str, Any, Request]]:
    """Yield name, rows and settings of each case."""
    tables = {(records, count): table(records, count) for records, count in product(SIZES, (0, 2))}

    def settings(target: str, trust: str, epsilon: float, delta: float, **options: Any) -> Request:
        return fit_request("bought", DOMAINS[target], epsilon, delta, "people", trust=trust, **options)

    def rows(records: int, target: str, categories: int = 0, **more: Any) -> GivenRows:
        return GivenRows.of(tables[records, categories], None, None, DOMAINS[target], **more)

    public = list(product(DOMAINS, ("local", "central"), (0.0, 1e-6)))
    for (target, trust, delta), records, epsilon in product(public, SIZES, EPSILONS):
        asked, name = settings(target, trust, epsilon, delta), f"{target}, {trust}, {delta}, {records}, {epsilon}"
        yield name, rows(records, target), asked
        if delta and trust == "central":
            yield f"{name}, categories", rows(records, target, 2), asked
    for (target, trust, delta), epsilon in product(public, (0.1, 2.0)):
        name, users = f"{target}, {trust}, {delta}, {epsilon}", np.arange(600) // 4
        for cap in (None, 2):
            asked = settings(target, trust, epsilon, delta, user_column="user", per_user=cap)
            yield f"{name}, users, {cap}", rows(600, target, users=users), asked
        weights = np.ones(600)
        yield f"{name}, weights", rows(600, target, weights=weights), settings(target, trust, epsilon, delta)
        for option, values in OPTIONS.items():
            yield f"{name}, {option}", rows(600, target), settings(target, trust, epsilon, delta, **values)
    for (target, trust, delta), count in product(public, (499, 500)):
        pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8)).astype(np.uint8)
        images = ImageRows(encoders.ImageShape((8, 8)), pixels, np.zeros(count), "labels", DOMAINS[target])
        name, asked = f"{target}, {trust}, {delta}, {count} images", settings(target, trust, 1.0, delta)
        yield name, images, asked
        for option, values in OPTIONS.items() if count == 500 else ():
            yield f"{name}, {option}", images, settings(target, trust, 1.0, delta, **values)


def outcomes() -> dict[str, str]:
    """Return what is taken in each case."""
    found: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(auto, "LEAST_IMAGES", 500)
        for kind in KINDS:  # what features can be learned from is no matter of the choice
            patch.setattr(kind, "check", lambda *given: None)
        for torch in (True, False):
            patch.setattr(auto, "find_spec", lambda name, torch=torch: torch or None)
            for name, rows, settings in cases():
                if torch or "images" in name:
                    found[name + ", torch" * (torch and "images" in name)] = taken(rows, settings)
    return found


def test_auto_takes_what_is_recorded() -> None:
    assert outcomes() == json.loads(RECORDED.read_text())


def test_a_choice_is_a_function_of_public_numbers_and_says_why() -> None:
    request = fit_request("bought", ldp.Classes(2), 0.1, 1e-6, "people", trust="central")

    def chosen(name: str) -> Request:
        return replace(request, options={**request.options, "chosen": name})

    choice = choose_model(request, Described(5_000, 0.1, 3))
    assert (choice.name, choice.delta, choice.alternatives, choice.charged) == ("central linear", 1e-6, 2, False)
    assert str(choice).startswith("--model auto took central linear: public numbers cannot tell what noise costs. ")
    stays = choose_model(request, Described(5_000, 0.1, 3), lambda way: way.model == "cells")
    assert stays.name == "central cells" and stays.delta == 0 and stays.charged
    assert stays.reason == choose_model(chosen("central cells"), Described(5_000, 0.1, 3)).reason
    with pytest.raises(ldp.privacy.InputError, match="has no way 'central forest'"):
        choose_model(chosen("central forest"), Described(5_000, 0.1, 3))
    named = choose_model(replace(request, does="cells"), Described(5_000, 0.1, 3))
    assert named.model == "cells" and not str(named)


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(outcomes(), indent=0) + "\n")
