"""A user's file: `make types` checks it with mypy --strict; pyright accepts it in strict mode, too."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import labeldp as ldp


def local(features: NDArray[np.float64], labels: list[str]) -> NDArray[np.object_] | list[str]:
    """A model of randomized labels, and what it cost."""
    domain = ldp.Classes(("no", "yes"))
    curator = ldp.Curator(labels, domain=domain, budget=ldp.Budget(epsilon=1.0))
    release = ldp.fit_multistage(features, curator, epsilon=1.0, rng=ldp.SystemRandomness())
    sentence: str = release.certificate.at(0)
    spent: float = curator.ledger.spent.epsilon()
    estimate = release.value.evaluation
    assert sentence and spent and estimate is not None
    predicted: NDArray[np.object_] = release.value.predict(features)
    return predicted


def released(labels: NDArray[np.int64], folder: Path) -> float:
    """Labels that are released under a ledger file, and an estimate from them."""
    file = ldp.LedgerFile(folder / "labels.ledger")
    file.add("survey", ldp.Budget(epsilon=2, delta=1e-6))
    ledger = file.dataset("survey")
    curator = ldp.Curator(labels, domain=ldp.Classes(3), ledger=ledger, ids=range(len(labels)))
    response = ldp.RandomizedResponse(domain=ldp.Classes(3), epsilon=1)
    answers = curator.release(response, rng=ldp.SystemRandomness())
    halves = curator.split(ldp.Public(np.arange(len(labels)) % 2, why="even and odd rows"))
    joined = ldp.gather([answers], len)
    rows: int = joined.value
    loss: ldp.PrivacyLoss = response.privacy_loss() + ldp.PrivacyLoss.pure(1)
    accuracy: float = ldp.debiased_accuracy(answers, np.zeros(rows, int)).value
    return accuracy + loss.delta(1) + len(halves)


def estimators(features: NDArray[np.float64], labels: list[str], folder: Path) -> list[str]:
    """scikit-learn's way, from fit to report, and a model from a file."""
    model = ldp.LabelDPClassifier(epsilon=1, delta=1e-6, trust="central", classes=("no", "yes"))
    model.fit(features, labels)
    ldp.report.write_report(model, folder / "report.html", features)
    numbers = ldp.LabelDPRegressor(epsilon=1, range=(0, 100)).fit(features, [1.0] * len(labels))
    certificate: ldp.Certificate = numbers.certificate_
    loaded = ldp.load(folder / "model")
    return [certificate.at(1e-6), str(loaded.predict(features)[0])]


def sums(features: NDArray[np.float64], numbers: NDArray[np.float64]) -> float:
    """Sums over bags, a linear model, and advice."""
    public = ldp.Public(features, why="collected without the labels")
    interval = ldp.Interval(0, 100)
    curator = ldp.Curator(numbers, domain=interval, budget=ldp.Budget(4, 1e-6))
    rng = ldp.SystemRandomness()
    bags = curator.release(ldp.BagSum(64, domain=interval, epsilon=1, features=public), rng=rng)
    ldp.fit_bags(features, bags)
    linear = ldp.fit_linear(features, curator, epsilon=1, delta=1e-6, rng=rng)
    advice = ldp.advice.choose(features.shape, interval, epsilon=1)
    try:
        ldp.fit_cells(features, curator, epsilon=9, rng=rng)
    except ldp.BudgetExceeded as error:
        print(error)
    return float(linear.value.predict(features)[0]) + len(advice.options)


def rounds(losses: NDArray[np.float64]) -> list[str]:
    """Decisions round after round."""
    learner = ldp.online.PrivateExperts(3, len(losses), epsilon=1)
    named = ldp.online.NamedExperts(("red", "green", "blue"), learner)
    chosen: list[str] = []
    for row in losses:
        chosen.append(named.pull())
        named.update(dict(zip(("red", "green", "blue"), row, strict=True)))
    plan = ldp.online.plan_experts(3, 1000, epsilon=1)
    return [*chosen, plan.method]
