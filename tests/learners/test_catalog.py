"""The catalog of learners: who may name one, what its releases cost, and what is left of an interrupted fit."""

from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

import labeldp as ldp
from labeldp.cli.fit import fit
from labeldp.fit import TRUSTED, FitSettings, fit_request, prepare, read_rows
from labeldp.learners import LEARNERS, Learner, LearnerEntry, Model, Task, fit_noisy, learner_of, remaining
from labeldp.privacy import Charge, NewLedgerWarning, Plan, PrivacyLoss, Step, total_loss

LINEAR = FitSettings("bought", ldp.Classes(3), 0.5, 1e-6, "people", trust="central", model="linear")

LOCAL = replace(LINEAR, delta=0.0, trust="local", model="mixture")

TORCH = find_spec("torch") is not None


def task_of(settings: FitSettings, records: int = 100) -> Task:
    return Task(settings.domain, records, settings.epsilon, settings.delta)


def plan_of(settings: FitSettings, *, images: bool = False, records: int = 100) -> Plan:
    return settings.learner(images=images).plan(task_of(settings, records))


def noise_of(settings: FitSettings) -> str:
    return settings.learner().describe_noise(task_of(settings))


def test_the_command_line_names_every_model() -> None:
    model = next(option for option in fit.params if option.name == "model")
    assert list(model.type.choices) == ["auto", *LEARNERS]  # type: ignore[attr-defined]
    assert all(f"{name} ({entry.help}" in model.help for name, entry in LEARNERS.items())  # type: ignore[attr-defined]
    assert not any(option.name == "method" for option in fit.params)


def test_every_class_that_a_bundle_may_hold_exists() -> None:
    for name in TRUSTED:
        module, _, kind = name.rpartition(".")
        if not module.startswith("labeldp.networks") or TORCH:
            assert hasattr(import_module(module), kind), name


def test_every_learner_of_the_catalog_can_be_imported() -> None:
    for name, entry in LEARNERS.items():
        for path in {entry.local, entry.central, entry.numbers} - {""}:
            module, _, kind = path.partition(":")
            if TORCH or "networks" not in module:
                assert issubclass(getattr(import_module(module), kind), Learner), name


@pytest.mark.parametrize("images", [False, True])
@pytest.mark.parametrize("trust", ["local", "central", "none"])
def test_a_model_goes_with_its_trust_alone(images: bool, trust: str) -> None:
    for model, entry in LEARNERS.items():
        if ("images" if images else "tables") not in entry.data:
            continue
        settings = replace(LOCAL, model=model, trust=trust)
        if trust != "none" and entry.path(trust, "classes"):
            if TORCH or "networks" not in entry.path(trust, "classes"):
                assert settings.learner(images=images).name == model
        else:
            with pytest.raises(ldp.privacy.InputError, match=r"--trust"):
                settings.learner(images=images)


@pytest.mark.parametrize(
    ("changes", "images", "words"),
    [
        ({"model": "network"}, False, "--model network is not for a table: take --model auto, mixture"),
        ({"model": "tree"}, False, "--model must be one of auto, mixture, boosting"),
        ({"model": "linear", "prior": "clusters"}, True, "--prior clusters goes with --trust central"),
        ({"model": "linear", "delta": 1e-6}, True, "--delta goes with --trust central"),
        (
            {"model": "network", "trust": "central"},
            True,
            "goes with --trust local; .* take --model linear or distilled",
        ),
        ({"model": "network", "delta": 1e-6}, True, "--delta goes with --trust central"),
        ({"model": "distilled", "delta": 1e-6}, True, "--delta goes with --trust central"),
        (
            {"model": "distilled", "trust": "central"},
            False,
            "--model distilled is not for a table: take --model auto, mixture",
        ),
        ({"model": "cells", "trust": "central", "delta": 1e-6}, False, "--delta does not go with --model cells"),
        ({"model": "linear", "network": "cnn"}, True, "--network goes with --model network, distilled"),
        ({"model": "neighbors", "stages": 2}, False, "--stages does not go with --model neighbors and --trust local"),
        ({"model": "linear", "epochs": 2}, False, "--epochs goes with --model network"),
        ({"model": "linear", "trust": "central", "init": "model"}, True, "--init goes with --model network"),
    ],
)
def test_models_of_images_and_of_tables_are_told_apart(changes: dict[str, Any], images: bool, words: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=words):
        replace(LOCAL, **changes).learner(images=images)


@pytest.mark.skipif(TORCH, reason="torch is installed")
def test_networks_say_what_they_need() -> None:
    with pytest.raises(ldp.privacy.InputError, match=r"networks need torch.*Linear models do without it"):
        replace(LOCAL, model="network").learner(images=True)


def test_the_parts_of_a_linear_fit_cost_epsilon_once() -> None:
    plan = plan_of(LINEAR)
    assert [step.name for step in plan.steps] == ["linear", "evaluation"]
    total = total_loss(remaining(plan, {}))
    assert total.within(0.5, 1e-6) and not total.within(0.4999, 1e-6) and not total.within(0.5, 0.9e-6)
    pure = total_loss(remaining(plan_of(replace(LINEAR, delta=0.0)), {}))
    assert pure.max_loss == PrivacyLoss.pure(0.5).max_loss


def test_what_is_left_lies_in_the_split_that_was_charged() -> None:
    plan = plan_of(LINEAR)
    linear, evaluation = plan.steps
    done = Charge("1", (("split of the records", 0),), linear.loss, {})
    (left,) = remaining(plan, {"linear": done})
    assert left.path == (("split of the records", 1),) and left.loss == evaluation.loss
    assert total_loss([done, left]).within(0.5, 1e-6)
    assert remaining(plan, {"linear": done, "evaluation": left}) == ()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("records", [30, 3000])
def test_what_sums_cost_is_known_before_their_rows_are(epsilon: float, records: int) -> None:
    """The step's loss agrees with the charge of the release in the fourth digit, and both keep the promise."""
    plan = plan_of(replace(LINEAR, epsilon=epsilon), records=records)
    rows = np.random.default_rng(0).normal(size=(records, 7))
    curator = ldp.Curator(np.arange(records) % 3, domain=LINEAR.domain, budget=ldp.Budget(epsilon, 1e-6))
    release = ldp.fit_linear(rows, curator, epsilon=epsilon, delta=1e-6, rng=np.random.default_rng(1))
    charged, foreseen = release.certificate.entries[0].loss, plan.steps[0].loss
    assert charged.within(epsilon, 1e-6) and foreseen.within(epsilon, 1e-6)
    assert charged.epsilon(1e-6) == pytest.approx(foreseen.epsilon(1e-6), rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"stages": 2}, "--stages"), ({"prior": "clusters"}, "--prior"), ({"model": "tree"}, "--model must be one of")],
)
def test_options_of_other_models_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ldp.privacy.InputError, match=words):
        replace(LINEAR, **changes).learner()
    with pytest.raises(ldp.privacy.InputError, match="--delta goes with --trust central"):
        replace(LOCAL, delta=1e-6).learner()


@pytest.mark.parametrize(("images", "model"), [(False, "mixture"), (False, "boosting"), (True, "network")])
def test_a_prior_of_counts_takes_somebody_who_counts(images: bool, model: str) -> None:
    settings = replace(LOCAL, model=model, prior="clusters")
    with pytest.raises(ldp.privacy.InputError, match="--prior clusters goes with --trust central: a curator counts"):
        settings.learner(images=images)
    without = replace(settings, trust="central", prior="none", model="network" if images else "boosting")
    with pytest.raises(ldp.privacy.InputError, match="goes with --trust local"):
        without.learner(images=images)
    if images and not TORCH:
        return
    central = replace(settings, trust="central")
    assert central.learner(images=images).name == model
    assert plan_of(central, images=images, records=1000).steps[0].name == "cluster prior"
    with pytest.raises(ldp.privacy.InputError, match="--delta does not go with --prior clusters"):
        replace(central, delta=1e-6).learner(images=images)


@pytest.mark.skipif(not TORCH, reason="networks need torch")
def test_each_epoch_is_shown_with_the_share_that_is_done() -> None:
    from labeldp.networks.classifier import epochs_shown

    seen: list[tuple[str, float]] = []
    watch = epochs_shown(lambda text, share: seen.append((text, share)), 2)
    for step, epoch in [("stage 1", 1), ("stage 1", 2), ("stage 2", 1), ("stage 2", 2), ("one more", 1)]:
        watch(step, SimpleNamespace(epoch=epoch, loss=0.5), 2)  # type: ignore[arg-type]
    assert [share for _, share in seen] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert seen[2][0] == "stage 2: epoch 1 of 2, loss 0.500"


def test_noise_is_told_in_words() -> None:
    four = replace(LOCAL, domain=ldp.Classes(4))
    noise = noise_of(four)
    assert "one of 2 random class groups" in noise and "probability 0.622." in noise  # e^0.5 / (e^0.5 + 1)
    assert noise_of(LINEAR).startswith("Gaussian noise was added to every sum")
    assert "2.83 times" in noise_of(replace(LINEAR, delta=0.0))  # sqrt(2) / 0.5


NUMBERS = replace(LOCAL, domain=ldp.Interval(0, 10))


@pytest.mark.parametrize(
    ("changes", "kind", "model"),
    [
        ({}, "ReleasedLabels", "mixture"),
        ({"model": "boosting"}, "ReleasedLabels", "boosting"),
        ({"model": "neighbors"}, "ReleasedLabels", "neighbors"),
        ({"trust": "central", "model": "cells"}, "Cells", "cells"),
        ({"trust": "central", "model": "linear", "delta": 1e-6}, "Linear", "linear"),
        ({"trust": "central", "model": "linear"}, "Linear", "linear"),
    ],
)
def test_numbers_have_plans_of_their_own(changes: dict[str, Any], kind: str, model: str) -> None:
    settings = replace(NUMBERS, **changes)
    learner, plan = settings.learner(), plan_of(settings)
    assert type(learner).__name__ == kind and learner.name == model
    assert total_loss(remaining(plan, {})).within(0.5, changes.get("delta", 0)) and len(plan.steps) in (2, 3, 5)


@pytest.mark.parametrize("model", ["cells", "neighbors"])
@pytest.mark.parametrize("classes", [2, 3, 10, 11, 40])
def test_classes_are_answered_alike_whatever_the_model(model: str, classes: int) -> None:
    settings = replace(LOCAL, domain=ldp.Classes(classes), epsilon=1.0)
    answers = [
        list(replace(settings, model=name).learner().answers(task_of(settings)).values()) for name in (model, "mixture")
    ]
    assert answers[0][0].specification() == answers[1][0].specification()
    assert plan_of(replace(settings, model=model)).steps[0].loss.within(1.0, 0)


@pytest.mark.slow
def test_how_far_a_released_number_is_from_the_true_one_is_said() -> None:
    assert "one of 2 values in [-15.41, 25.41]" in noise_of(NUMBERS)  # 10 / (e^0.5 - 1) beyond
    assert "scale 20.00, in the unit of the labels, was added to the sum of each cell" in noise_of(
        replace(NUMBERS, trust="central", model="cells")
    )
    many = replace(LOCAL, domain=ldp.Classes(40), model="cells", epsilon=1.0)
    assert "one of 3 random class groups" in noise_of(many)


def test_images_may_have_numbers_for_labels_with_a_linear_model() -> None:
    images = replace(NUMBERS, trust="central", model="linear")
    assert type(images.learner(images=True)).__name__ == "Linear"
    with pytest.raises(ldp.privacy.InputError, match="--model network does not learn numbers"):
        replace(NUMBERS, model="network").learner(images=True)


@final
@dataclass(frozen=True)
class Shares(Learner):
    """The shares of the classes, by one release of all labels: the smallest learner."""

    seen: list[Any] = field(default_factory=list, compare=False)

    def plan(self, task: Task) -> Plan:
        return Plan(self.name, (Step(path=(), loss=self.mechanism(task).privacy_loss(), name="shares"),))

    def mechanism(self, task: Task) -> ldp.RandomizedResponse:
        return ldp.RandomizedResponse(domain=task.domain, epsilon=task.epsilon)

    def fit(self, features: Any, curator: Any, task: Task, *, rng: Any, progress: Any = None) -> ldp.Release[Model]:
        release = curator.release(self.mechanism(task), rng=rng, step="shares")
        return fit_noisy(features, release, classifier=DummyClassifier(strategy="prior"), training="plain")

    def describe(self, model: Any, task: Task) -> str:
        return "shares of the classes"

    def describe_noise(self, task: Task) -> str:
        return self.mechanism(task).describe_noise()


def test_a_row_of_the_catalog_is_all_that_a_learner_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    entry = LearnerEntry("shares of the classes", f"{__name__}:Shares", targets=(("classes",), ()))
    monkeypatch.setitem(LEARNERS, "shares", replace(entry, stores={"sklearn.dummy": "DummyClassifier"}))
    rng = np.random.default_rng(0)
    table = tmp_path / "people.csv"
    table.write_text("age,bought\n" + "".join(f"{age},{age % 2}\n" for age in rng.integers(18, 90, 200)))
    request = fit_request("bought", ldp.Classes(("0", "1")), 1.0, 0.0, "people", model="shares")
    job = prepare(request, read_rows(request, str(table), None)[0], str(tmp_path / "l.ledger"))
    with pytest.warns(NewLedgerWarning):
        release = job.learn(lambda *_: None)
    [charge] = release.certificate.entries
    assert charge.loss == plan_of(job.settings).steps[0].loss and set(job.charged(job.account.read())) == {"shares"}
    with pytest.raises(ldp.privacy.InputError, match="--stages does not go with --model shares"):
        learner_of("shares", stages=2)
