"""The grey-box audit: seven kinds of mistakes are found, honest programs give no alarm."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import labeldp as ldp
from labeldp.audit import Primitive, trace
from labeldp.cli.audit import audit
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.privacy import InputError, PrivacyLoss
from mechanisms.examples import EXAMPLES

LABELS = np.array([0, 1] * 50)
FEATURES = np.random.default_rng(3).normal(size=(100, 2))
RNG = np.random.Generator


def raw_mean(labels: Any, rng: RNG) -> Any:
    return labels.mean(), labels.sum() + rng.laplace(scale=1.0)


def raw_rows(labels: Any, rng: RNG) -> Any:
    order = rng.permutation(4)
    return labels[:4], order


def wrong_sensitivity(labels: Any, rng: RNG) -> Any:
    return (3 * labels).sum() + rng.laplace(scale=1.0)


def small_noise(labels: Any, rng: RNG) -> Any:
    return labels.sum() + rng.laplace(scale=0.2)


def reused_noise(labels: Any, rng: RNG) -> Any:
    noise = rng.laplace(scale=4.0, size=())
    return labels.sum() + noise, (1 - labels).sum() + 2 * noise


def spent_twice(labels: Any, rng: RNG) -> Any:
    return [labels.sum() + rng.laplace(scale=1.0) for _ in range(2)]


def label_decides(labels: Any, rng: RNG) -> Any:
    total = labels.sum() + rng.laplace(scale=2.0)
    return [total, labels.sum() + rng.laplace(scale=2.0)] if labels.sum() > 50 else [total]


def domain_from_labels(labels: Any, rng: RNG) -> Any:
    counts = np.unique(labels, return_counts=True)[1]
    return counts + rng.laplace(scale=2.0, size=len(counts))


def scale_from_labels(labels: Any, rng: RNG) -> Any:
    return labels.sum() + rng.laplace(scale=max(1.0, float(labels.sum()) / 10))


def fixed_seed(labels: Any, rng: RNG) -> Any:
    return labels.sum() + np.random.default_rng(0).laplace(scale=1.0)


def one_sided(labels: Any, rng: RNG) -> Any:
    return labels.sum() + rng.geometric(0.6)


def next_to_a_release(labels: Any, rng: RNG) -> Any:
    curator = ldp.Curator(labels, domain=Classes(2), budget=ldp.Budget(1))
    return curator.release(RandomizedResponse(Classes(2), 1.0), rng=rng), int(labels.sum())


def epsilon_from_labels(labels: Any, rng: RNG) -> Any:
    curator = ldp.Curator(labels, domain=Classes(2), budget=ldp.Budget(1))
    epsilon = 1.0 if labels.sum() > 50 else 0.5
    return curator.release(RandomizedResponse(Classes(2), epsilon), rng=rng)


def one_draw_for_all(labels: Any, rng: RNG) -> Any:
    return np.bincount(labels, minlength=2) + rng.laplace(scale=2.0)


def integer_noise(labels: Any, rng: RNG) -> Any:
    p = 1 - np.exp(-1.0)
    return labels.mean() + (rng.geometric(p) - rng.geometric(p))


def answered_often(labels: Any, rng: RNG) -> Any:
    return RandomizedResponse(Classes(2), 1.0).randomize(np.repeat(labels, 10), rng=rng)


def repeated_labels(labels: Any, rng: RNG) -> Any:
    curator = ldp.Curator(np.repeat(labels, 5), domain=Classes(2), budget=ldp.Budget(1))
    return curator.release(RandomizedResponse(Classes(2), 1.0), rng=rng)


def series(labels: Any, rng: RNG) -> Any:
    return labels.sum() + rng.laplace(scale=1.0), pd.Series(np.asarray(labels))


def printed(labels: Any, rng: RNG) -> Any:
    print(labels[:5])
    return labels.sum() + rng.laplace(scale=1.0)


MISTAKES: list[tuple[Callable[[Any, RNG], Any], str]] = [
    (raw_mean, "raw output"),
    (raw_rows, "raw output"),
    (next_to_a_release, "raw output"),
    (wrong_sensitivity, "budget"),
    (small_noise, "budget"),
    (one_sided, "noise"),
    (reused_noise, "noise reused"),
    (spent_twice, "budget"),
    (label_decides, "control flow"),
    (domain_from_labels, "control flow"),
    (scale_from_labels, "parameters"),
    (epsilon_from_labels, "parameters"),
    (fixed_seed, "randomness"),
    (one_draw_for_all, "noise reused"),
    (integer_noise, "noise"),
    (answered_often, "budget"),
    (repeated_labels, "budget"),
    (series, "raw output"),
    (printed, "raw output"),
]
"""Programs that claim epsilon = 1, and what is found in them."""


def test_gaussian_noise_costs_its_curve_and_nothing_less() -> None:
    exact = PrivacyLoss.gaussian(1 / 3).delta(1.0)

    def program(labels: Any, rng: RNG) -> Any:
        return labels.sum() + rng.normal(scale=3.0)

    assert trace(program, LABELS, epsilon=1, delta=exact * 1.001, pairs=2).verdict == "holds"
    assert trace(program, LABELS, epsilon=1, delta=exact * 0.99, pairs=2).verdict == "fails"


@pytest.mark.parametrize(("program", "kind"), MISTAKES, ids=[program.__name__ for program, _ in MISTAKES])
def test_each_kind_of_mistake_is_found(program: Callable[[Any, RNG], Any], kind: str) -> None:
    found = trace(program, LABELS, epsilon=1)
    assert found.verdict == "fails"
    assert kind in {finding.kind for finding in found.findings if finding.fails}


def test_a_mistake_of_a_primitive_is_found_where_it_is_called() -> None:
    class Library:
        @staticmethod
        def noisy(value: float, sensitivity: float, epsilon: float, rng: RNG) -> float:
            return value + float(np.random.Generator.laplace(rng, scale=sensitivity / epsilon))

    def declares(value: float, sensitivity: float, epsilon: float, rng: RNG) -> tuple[float, float, PrivacyLoss]:
        return value, sensitivity, PrivacyLoss.pure(epsilon)

    primitive = Primitive(Library, "noisy", declares)
    honest = trace(
        lambda labels, rng: Library.noisy(labels.sum(), 1, 1, rng), LABELS, epsilon=1, primitives=[primitive]
    )
    assert honest.verdict == "holds" and honest.events[0]["sensitivity"] == 1
    wrong = trace(
        lambda labels, rng: Library.noisy(5 * labels.sum(), 1, 1, rng), LABELS, epsilon=1, primitives=[primitive]
    )
    assert [finding.kind for finding in wrong.findings] == ["sensitivity"]
    assert wrong.findings[0].site.startswith("test_trace.py:")


def noisy_sum(labels: Any, rng: RNG) -> Any:
    return labels.sum() + rng.laplace(scale=1.0)


def geometric_counts(labels: Any, rng: RNG) -> Any:
    p = 1 - np.exp(-0.5)
    return np.bincount(labels, minlength=3) + (rng.geometric(p, size=3) - rng.geometric(p, size=3))


def two_queries(labels: Any, rng: RNG) -> Any:
    return [labels[:50].sum() - rng.laplace(scale=1.0), labels[50:].sum() + 2 * rng.laplace(scale=0.5)]


class Pair(NamedTuple):
    low: Any
    high: Any


def named_queries(labels: Any, rng: RNG) -> Any:
    return Pair(*two_queries(labels, rng))


def cells(labels: Any, rng: RNG) -> Any:
    curator = ldp.Curator(labels, domain=Classes(2), budget=ldp.Budget(1))
    features = np.linspace(0, 1, len(labels))[:, None]
    return ldp.fit_cells(features, curator, epsilon=1.0, rng=rng)


def stages(labels: Any, rng: RNG) -> Any:
    curator = ldp.Curator(labels, domain=Classes(2), budget=ldp.Budget(1))
    return ldp.fit_multistage(FEATURES, curator, epsilon=1.0, stages=2, rng=rng).value.predict(FEATURES)


def linear(labels: Any, rng: RNG) -> Any:
    curator = ldp.Curator(labels, domain=Classes(2), budget=ldp.Budget(1))
    return ldp.fit_linear(FEATURES, curator, epsilon=1.0, rng=rng).value.predict(FEATURES)


HONEST: list[Callable[[Any, RNG], Any]] = [noisy_sum, geometric_counts, two_queries, named_queries, cells]


@pytest.mark.parametrize(
    "program", [*HONEST, *(pytest.param(each, marks=pytest.mark.slow) for each in (stages, linear))]
)
def test_an_honest_program_gives_no_alarm(program: Callable[[Any, RNG], Any]) -> None:
    found = trace(program, LABELS, epsilon=1, pairs=6)
    assert found.verdict == "holds", found.findings
    assert 0.5 < found.epsilon <= 1 + 1e-9
    assert found.reads and any(site.startswith("test_trace.py:") for site in found.reads)


def of_mechanism(name: str, epsilon: float) -> tuple[Callable[[Any, RNG], Any], np.ndarray, np.ndarray]:
    """Return a program that releases by a mechanism, labels, and the ends of its domain."""
    mechanism = EXAMPLES[name](epsilon)
    records = mechanism.records or 30
    values = mechanism.domain.decode(np.arange(mechanism.domain.size))
    labels = np.random.default_rng(len(name)).choice(values, records)

    def program(labels: Any, rng: RNG) -> Any:
        budget = ldp.Budget(200, 0 if mechanism.privacy_loss().max_loss is not None else 0.5)
        curator = ldp.Curator(np.asarray(labels), domain=mechanism.domain, budget=budget)
        return curator.release(mechanism, rng=rng)

    return program, labels, values


def alarms(name: str, epsilon: float, pairs: int) -> list[Any]:
    program, labels, values = of_mechanism(name, epsilon)
    loss = EXAMPLES[name](epsilon).privacy_loss()
    deltas = [0.0] if loss.max_loss is not None else [1e-6, 1e-2]  # secret weights have no epsilon at a smaller one
    claim, delta = next((epsilon, delta) for delta in deltas if np.isfinite(epsilon := loss.epsilon(delta)))
    found = trace(program, labels, epsilon=claim, delta=delta, values=values, pairs=pairs)
    return [] if found.verdict == "holds" else list(found.findings)


@pytest.mark.parametrize("name", ["ten classes", "few numbers", "exponential", "bag sum", "gaussian moment"])
def test_a_mechanism_gives_no_alarm(name: str) -> None:
    assert alarms(name, 1.0, 4) == []


@pytest.mark.slow
def test_200_honest_runs_give_no_alarm() -> None:
    names = [name for name in EXAMPLES if name != "the paper's bags"]  # which promise nothing
    runs = [(name, epsilon) for epsilon in (0.3, 0.5, 0.7, 1.0, 2.0, 3.0) for name in names][:200]
    assert len(runs) == 200
    assert {name: found for name, epsilon in runs if (found := alarms(name, epsilon, 2))} == {}


def test_randomized_response_by_hand_is_not_decided() -> None:
    """Plain random numbers hide labels in ways that are not seen: unverified, and the sentence says what to use."""

    def by_hand(labels: Any, rng: RNG) -> Any:
        return np.where(rng.random(len(labels)) < 0.7, labels, 1 - labels)

    found = trace(by_hand, LABELS, epsilon=1)
    assert found.verdict == "unverified" and "audit_sampler" in found.findings[0].sentence


def undone(labels: Any, rng: RNG) -> Any:
    noise = rng.laplace(scale=1.0, size=())
    return labels.sum() + noise - float(noise)


def beside(labels: Any, rng: RNG) -> Any:
    noise = rng.laplace(scale=1.0, size=())
    return labels.sum() + noise, noise


def plain_float(labels: Any, rng: RNG) -> Any:
    return labels.sum() + float(rng.laplace(scale=1.0))


@pytest.mark.parametrize("program", [undone, beside, plain_float])
def test_noise_that_is_read_beside_its_sum_is_not_decided(program: Callable[[Any, RNG], Any]) -> None:
    """A number that is no noise any more may hide labels, or may take the noise off again."""
    assert trace(program, LABELS, epsilon=1).verdict == "unverified"


@pytest.mark.parametrize("labels", [[], [[0, 1]], [1, 1]])
def test_what_it_refuses(labels: Any) -> None:
    with pytest.raises(InputError):
        trace(noisy_sum, labels, epsilon=1)


PROGRAM = """
def honest(labels, rng):
    return (labels == "yes").sum() + rng.laplace(scale=1.0)

def leaks(labels, rng):
    return (labels == "yes").sum(), (labels == "yes").sum() + rng.laplace(scale=1.0)

def breaks(labels, rng):
    raise KeyError(labels[0])
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("noise.py").write_text(PROGRAM)
    Path("people.csv").write_text("bought\n" + "yes\nno\n" * 40)


@pytest.mark.usefixtures("program")
def test_the_command_audits_a_function_of_a_file() -> None:
    asked = ["program", "noise.py:honest", "--classes", "no,yes", "--epsilon", "1"]
    ran = CliRunner().invoke(audit, asked)
    assert ran.exit_code == 0 and "noise.py:3" in ran.output, ran.output
    ran = CliRunner().invoke(audit, ["program", "noise.py:leaks", *asked[2:], "--out", "trace.json"])
    assert ran.exit_code == 1 and "depends on labels without noise" in ran.output
    assert json.loads(Path("trace.json").read_text())["verdict"] == "fails"


@pytest.mark.usefixtures("program")
def test_a_trace_of_real_labels_is_secret_and_shows_no_number() -> None:
    asked = ["program", "noise.py:honest", "--classes", "no,yes", "--epsilon", "1"]
    asked += ["--data", "people.csv", "--label", "bought", "--out", "trace.json"]
    ran = CliRunner().invoke(audit, asked)
    assert ran.exit_code == 0 and "as secret as they are" in ran.output, ran.output
    assert stat.S_IMODE(Path("trace.json").stat().st_mode) == 0o600
    assert "1.0" not in ran.output and "40" not in ran.output
    ran = CliRunner().invoke(audit, ["program", "noise.py:breaks", *asked[2:-2]])
    assert ran.exit_code == 1 and "KeyError" in f"{ran.output}{ran.exception}" and "'yes'" not in ran.output
    assert "yes" not in str(ran.exception)


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["noise.py"], "FILE.py:FUNCTION"),
        (["noise.py:nothing"], "has no function 'nothing'"),
        (["other.py:honest"], "no such file"),
        (["noise.py:honest", "--data", "people.csv"], "--label"),
    ],
)
def test_a_wrong_command_gets_one_line(words: list[str], sentence: str) -> None:
    ran = CliRunner().invoke(audit, ["program", *words, "--classes", "no,yes", "--epsilon", "1"])
    assert ran.exit_code and sentence in f"{ran.output}{ran.exception}", ran.output
