"""Summaries of imagined fits, from the plainest to the most hostile."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

import pytest

from labeldp.fit import (
    Across,
    Bin,
    BudgetUse,
    CertificateRow,
    Confusion,
    CostRow,
    Curve,
    CurvePoint,
    Dropped,
    Estimated,
    FitSummary,
    Importance,
    NumberTest,
    Picture,
    PublicTest,
    RegressionSummary,
    Stage,
)

HOSTILE = "</style><script>alert('x')</script><img src=\"https://evil.example/x\">&{{ 7*7 }}\u202etxt"

CERTIFICATE = """Protects:   one label of dataset '{}' (central: the curator sees the labels)
Guarantee:  ε = 1, δ = 0. Any output is at most 2.719 times as likely under another label.
Published:  one noisy label per record
Conditions: 1. Features are public.  2. Each user's label stands in one record only."""

_ROW = CertificateRow(
    mechanism="RandomizedResponse(classes=2, epsilon=1)",
    epsilon=1.0,
    delta=0.0,
    records="part 0 of 3 of the split 'stages'",
    neighbors="one label may differ",
    trust="central: the curator sees the labels",
    randomness="operating system",
    published="one noisy label per record",
    assumptions=("Features are public.", "Each user's label stands in one record only."),
)


def plain(classes: int = 2) -> FitSummary:
    """A summary without any optional part."""
    names = ("<=50K", ">50K") if classes == 2 else tuple(f"class {number}" for number in range(classes))
    return FitSummary(
        title="Income, learned from a private column",
        created="2026-02-03T14:05:00+00:00",
        version="0.1.0",
        dataset="adult-2026",
        file="adult.parquet",
        rows=48842,
        label="income",
        classes=names,
        features=("age", "workclass", "education", "marital-status", "occupation", "capital-gain", "hours-per-week"),
        model="a histogram gradient boosting classifier, trained in two stages on noisy labels",
        command="labeldp fit adult.parquet --label income --classes '<=50K,>50K' --epsilon 1 "
        "--ledger labels.ledger --dataset adult-2026 --out model",
        sentence=CERTIFICATE.format("income"),
        certificate=(_ROW,),
        published=("The model.", "One noisy label per record, kept beside the model.", "The certificate."),
        secret=("The label column itself.", "The ledger file: it holds the key to the noise."),
        budget=BudgetUse(CostRow(4.0), CostRow(1.5), CostRow(1.0), CostRow(1.5)),
        accuracy=Estimated(0.8637, 0.8512, 0.8771, 0.95, "Debiased from the noisy labels of the evaluation part."),
        baseline=Estimated(0.7593, 0.7471, 0.7714, 0.95, "Debiased from all noisy labels."),
        gain=Estimated(0.1044, 0.0911, 0.1172, 0.95, "Debiased, record by record."),
    )


def confusion(classes: int, accuracy: float) -> Confusion:
    """Shares that sum to one, with a little noise that makes some negative."""
    draw = random.Random(classes)
    shares = [[draw.gauss(0.0, 0.1) * (1 - accuracy) / classes**2 for _ in range(classes)] for _ in range(classes)]
    for true in range(classes):
        shares[true][true] += accuracy / classes
        shares[true][(true + draw.choice((1, 1, 3))) % classes] += (1 - accuracy) / classes * draw.random() * 2
    return Confusion(tuple(map(tuple, shares)), "Debiased from the evaluation part.", 0.2 * (1 - accuracy) / classes)


def complete(classes: int = 2) -> FitSummary:
    """A summary with every optional part."""
    points = [(0.25, 0.792), (0.5, 0.838), (1.0, 0.861), (2.0, 0.869), (4.0, 0.872)]
    columns = ("capital-gain", "marital-status", "age", "education", "hours-per-week", "occupation", "workclass")
    columns += tuple(f"column {number}" for number in range(11))
    stage = f"randomized response on {classes} classes, ε = 1"
    return dataclasses.replace(
        plain(classes),
        features=columns,
        dropped=(Dropped("user_id", "a different value in every record"), Dropped("region", "one value only")),
        certificate=tuple(
            dataclasses.replace(_ROW, records=f"part {part} of 3 of the split 'stages'") for part in range(3)
        ),
        auc=Estimated(0.9123, 0.8981, 0.9264, 0.95, "Debiased from the evaluation part.") if classes == 2 else None,
        log_loss=Estimated(0.3127, 0.2874, 0.3381, 0.95, "Debiased from the evaluation part."),
        confusion=confusion(classes, 0.8637),
        curve=Curve(
            tuple(CurvePoint(epsilon, value, value - 0.02 / epsilon**0.6, value + 0.015) for epsilon, value in points),
            "simulation on released data. The model's own answers were taken as the truth, randomized anew at each ε "
            "five times, and learned again; this cost no privacy.",
        ),
        remedies=("An interval of the accuracy half as wide would take four times the records.",),
        importance=tuple(
            Importance(name, drop := 0.061 * 0.7**rank - 0.0004, drop - 0.004, drop + 0.004)
            for rank, name in enumerate(columns)
        ),
        test=PublicTest("adult_test.csv", 16281, 0.8689, 0.9217 if classes == 2 else None, confusion(classes, 0.8689)),
        stages=(
            Stage("first stage", 19537, stage),
            Stage("second stage", 19537, "randomized response with prior, ε = 1", 1.64),
            Stage("evaluation", 9768, stage),
        ),
    )


def hostile() -> FitSummary:
    """Every name tries to leave its place."""
    base = complete()
    return dataclasses.replace(
        base,
        title=HOSTILE,
        dataset=HOSTILE,
        file=HOSTILE.replace("/", ""),
        label=HOSTILE,
        classes=(HOSTILE, "\x00\ud800"),
        features=(HOSTILE, "long_" * 60, ""),
        model=HOSTILE,
        command=HOSTILE,
        sentence=HOSTILE,
        published=(HOSTILE,),
        secret=(HOSTILE,),
        warnings=(HOSTILE,),
        dropped=(Dropped(HOSTILE, HOSTILE),),
        importance=(Importance(HOSTILE, 0.1, 0.05, 0.15), Importance("long_" * 60, -0.01, -0.05, 0.03)),
        certificate=(dataclasses.replace(_ROW, mechanism=HOSTILE, records=HOSTILE, assumptions=(HOSTILE,)),),
        stages=(Stage(HOSTILE, 10, HOSTILE),),
        curve=Curve((CurvePoint(1.0, 0.5, 0.4, 0.6),), HOSTILE),
    )


def unclear() -> FitSummary:
    """An evaluation too small to tell anything, with estimates outside 0 to 100%."""
    return dataclasses.replace(
        complete(10),
        title="Digits, learned from 1,437 private labels",
        label="digit",
        sentence=CERTIFICATE.format("digits"),
        rows=1437,
        classes=tuple("0123456789"),
        accuracy=Estimated(0.93, 0.79, 1.07, 0.95, "Debiased from the evaluation part."),
        baseline=Estimated(0.11, -0.03, 0.82, 0.95, "Debiased from all noisy labels."),
        gain=Estimated(0.82, -0.05, 1.08, 0.95, "Debiased, record by record."),
        warnings=("The interval is too wide to tell: ±14 points. A larger evaluation part or a larger ε narrows it.",),
    )


def picture(kinds: tuple[str, ...], rows: int, *, hostile: bool = False) -> Picture:
    """Answers along features of some kinds: made up, but not constant."""
    axes = tuple(
        Across(
            HOSTILE if hostile else f"{kind} {'long ' * 20 * place}feature",
            kind,
            (0.0, 1.0, 2.0) if kind == "category" else tuple(20_000.0 + 40 * step for step in range(9)),
            (HOSTILE if hostile else "north", "a name that is far too long for an axis", "")
            if kind == "category"
            else (),
        )
        for place, kind in enumerate(kinds)
    )
    cells = math.prod(len(axis.places) for axis in axes)
    raw = [[1.0 + (cell * (row + 2)) % 7 for cell in range(cells)] for row in range(rows)]
    if rows == 1:
        return Picture(axes, (tuple(2e6 * value for value in raw[0]),), BINS if len(axes) == 1 else ())
    totals = [sum(column) for column in zip(*raw, strict=True)]
    return Picture(axes, tuple(tuple(v / t for v, t in zip(row, totals, strict=True)) for row in raw))


BINS = tuple(
    Bin(20_000.0 + 40 * n, 20_030.0 + 40 * n, 120, 20_015.0 + 40 * n, 1e6 * n, 1e6 * n - 3e6, 1e6 * n + 3e6)
    for n in range(8)
)


def numbers(*, test: bool = True, dark: bool = False) -> FitSummary:
    """A model of prices; `dark` where noise hides everything."""
    method = "debiased from 20,000 released labels; what was evaluated: the model"
    given = RegressionSummary(
        start=-5.0,
        end=2e7,
        grid=1025,
        clip=True,
        error=Estimated(0.0, 0.0, 3.1e6, 0.95, method) if dark else Estimated(2.1e6, 1.9e6, 2.3e6, 0.95, method),
        constant=Estimated(5.2e6, 0.0 if dark else 5.0e6, 5.4e6, 0.95, method),
        gain=Estimated(2.2e13, -1e12 if dark else 1.9e13, 2.5e13, 0.95, method),
        explained=None if dark else Estimated(0.83, 0.78, 0.88, 0.95, method),
        residuals=BINS[:1] if dark else BINS,
        test=NumberTest("homes_test.csv", 2000, 2.05e6, 1.2345e6, 0.8123) if test else None,
    )
    base = complete()
    return dataclasses.replace(
        plain(),
        title="A model of price",
        label="price",
        model="gradient-boosted trees, learned from one release of noisy labels",
        classes=(),
        accuracy=None,
        baseline=None,
        numbers=given,
        importance=tuple(dataclasses.replace(item, drop=2e12, low=1.5e12, high=2.5e12) for item in base.importance),
        features=base.features,
        stages=base.stages,
        warnings=("The interval of the error is wide.",) if dark else (),
        picture=None if dark else picture(("time",), 1),
    )


SUMMARIES: dict[str, Callable[[], FitSummary]] = {
    "plain": plain,
    "complete": complete,
    "ten": lambda: complete(10),
    "hundred": lambda: complete(100),
    "many": lambda: dataclasses.replace(complete(300), test=None),
    "hostile": hostile,
    "unclear": unclear,
    "numbers": numbers,
    "dark numbers": lambda: numbers(test=False, dark=True),
    "map of numbers": lambda: dataclasses.replace(numbers(), picture=picture(("number", "category"), 1)),
    "curve of classes": lambda: dataclasses.replace(complete(), picture=picture(("number",), 2)),
    "curves of ten": lambda: dataclasses.replace(complete(10), picture=picture(("category",), 10)),
    "map of classes": lambda: dataclasses.replace(complete(), picture=picture(("number", "time"), 2)),
    "map of ten": lambda: dataclasses.replace(complete(10), picture=picture(("category", "number"), 10)),
    "hostile picture": lambda: dataclasses.replace(hostile(), picture=picture(("category", "number"), 2, hostile=True)),
}


@pytest.fixture(params=list(SUMMARIES))
def summary(request: pytest.FixtureRequest) -> FitSummary:
    return SUMMARIES[request.param]()


@pytest.fixture
def samples() -> dict[str, Callable[[], FitSummary]]:
    return SUMMARIES
