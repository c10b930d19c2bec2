import copy
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.mechanisms import RandomizedResponse
from labeldp.online import OnlineSoftmax, StreamClassifier
from labeldp.privacy import Certificate

NAMES = ("cat", "dog", "owl")
RNG = np.random.default_rng


def records(count: int, seed: int = 0) -> list[tuple[dict[str, Any], str]]:
    """Records of three classes by a number and a category."""
    rng = RNG(seed)
    found = []
    for _ in range(count):
        weight, sound = float(rng.normal(20, 8)), str(rng.choice(["meow", "bark", "hoot"]))
        likely = {"meow": "cat", "bark": "dog", "hoot": "owl"}[sound]
        y = likely if rng.random() < 0.7 else ("dog" if weight > 20 else "owl")
        found.append(({"weight": weight, "sound": sound, "wild": bool(rng.integers(2)), "owner": None}, y))
    return found


def accuracy(model: Any, count: int = 1000) -> float:
    return float(np.mean([model.predict_one(x) == y for x, y in records(count, seed=99)]))


def test_it_learns_from_randomized_labels_that_come_one_by_one() -> None:
    stream = StreamClassifier(NAMES, epsilon=1, rng=RNG(0))
    assert stream.predict_proba_one({"weight": 3}) == dict.fromkeys(NAMES, 1 / 3)
    for x, y in records(6000):
        assert stream.learn_one(x, y) is None
    best = max(np.mean([y == name for _, y in records(1000, seed=99)]) for name in NAMES)
    assert accuracy(stream) > 0.75 > best + 0.2
    found = stream.predict_proba_one({"sound": "hoot", "weight": float("nan"), "new": 4})
    assert list(found) == list(NAMES) and sum(found.values()) == pytest.approx(1) and max(found, key=found.get) == "owl"
    assert stream.labels == 6000 and stream.ledger.spent.epsilon() == 1


@pytest.mark.guarantee("labeldp.online:StreamClassifier", "charged_first")
@pytest.mark.guarantee("labeldp.online:StreamClassifier", "refusal")
@pytest.mark.guarantee("labeldp.online:StreamClassifier", "no_copy")
def test_everything_is_charged_before_the_first_label_whatever_their_number() -> None:
    ledger = ldp.Ledger(ldp.Budget(1))
    stream = StreamClassifier(NAMES, epsilon=1, ledger=ledger, run="pets")
    assert ledger.spent.epsilon() == 1 and stream.labels == 0
    for x, y in records(50):
        stream.learn_one(x, y)
    assert ledger.spent.epsilon() == 1 and len(ledger.charges) == 1
    with pytest.raises(ldp.BudgetExceeded):
        StreamClassifier(NAMES, epsilon=0.001, ledger=ledger)
    said = stream.certificate.at()
    assert "local: noise is added to each label" in said and "one label of dataset" in said
    assert "each label is given to the stream 'pets' once" in said and "(randomized response, true label kept" in said
    assert Certificate.from_json(stream.certificate.to_json()) == stream.certificate


@pytest.mark.slow
def test_answers_have_the_law_of_randomized_response() -> None:
    stream = StreamClassifier(NAMES, epsilon=1, rng=RNG(3))
    count = 60_000
    counts = np.bincount([NAMES.index(str(stream.release_one("dog"))) for _ in range(count)], minlength=3)

    def distance(epsilon: float) -> float:
        wanted = count * RandomizedResponse(domain=ldp.Classes(NAMES), epsilon=epsilon).matrix()[1]
        return float(((counts - wanted) ** 2 / wanted).sum())

    assert distance(1.0) < 55 < distance(1.1)  # of two degrees of freedom, 55 is passed once in 1e12 times


def test_a_step_is_one_on_the_likelihood_of_the_answer() -> None:
    """Two classes, weights 0, so that both have probability 1/2; the answer is true with probability 0.75."""
    response = RandomizedResponse(domain=ldp.Classes(2), epsilon=float(np.log(3)))
    model = OnlineSoftmax(response, rate=0.5)
    model.learn_one({"red": "yes"}, 1)
    # P(y = 1 | answer 1) = 0.75: the gradient is (0.25, -0.25) for the constant and for red=yes.
    step = 0.5 * 0.25 / np.sqrt(0.25**2 + 1e-6)
    wanted = 1 / (1 + np.exp(-4 * step))
    assert model.predict_proba_one({"red": "yes"})[1] == pytest.approx(wanted, rel=1e-9)
    assert model.predict_proba_one({"red": "no"})[1] == pytest.approx(1 / (1 + np.exp(-2 * step)), rel=1e-9)


def test_the_model_is_public_and_goes_on_in_another_stream() -> None:
    stream = StreamClassifier(NAMES, epsilon=1, rng=RNG(0))
    for x, y in records(1000):
        stream.learn_one(x, y)
    kept = pickle.loads(pickle.dumps(stream.model))
    assert kept.predict_proba_one({"sound": "bark"}) == stream.predict_proba_one({"sound": "bark"})
    other = StreamClassifier(NAMES, epsilon=1, model=kept, rng=RNG(1))
    other.learn_one(*records(1)[0])
    assert other.predict_proba_one({"sound": "bark"}) != stream.predict_proba_one({"sound": "bark"})
    for wrong in (OnlineSoftmax(RandomizedResponse(domain=ldp.Classes(NAMES), epsilon=2)), "model"):
        with pytest.raises(ldp.privacy.InputError, match=r"^model must"):
            StreamClassifier(NAMES, epsilon=1, model=wrong)  # type: ignore[arg-type]


def test_released_classes_teach_a_model_without_a_curator() -> None:
    """Labels that were randomized where they came from, and a learner that sees nothing else."""
    device = StreamClassifier(NAMES, epsilon=2, rng=RNG(0))
    model = OnlineSoftmax(RandomizedResponse(domain=ldp.Classes(NAMES), epsilon=2))
    for x, y in records(3000):
        model.learn_one(x, device.release_one(y))
    assert accuracy(model) > 0.75


def test_a_stream_of_the_same_name_goes_on_at_no_cost(tmp_path: Path) -> None:
    path, budget = str(tmp_path / "ledger"), ldp.Budget(1)

    def account() -> Any:
        return ldp.LedgerFile(path).dataset("pets", budget=budget)

    first = StreamClassifier(NAMES, epsilon=1, ledger=account(), run="pets")
    first.learn_one(*records(1)[0])
    again = StreamClassifier(NAMES, epsilon=1, ledger=account(), run="pets", model=first.model)
    again.learn_one(*records(1, seed=5)[0])
    assert again.certificate == first.certificate and account().spent.epsilon() == 1
    for other in ({"run": "other"}, {"run": None}):
        with pytest.raises(ldp.BudgetExceeded):
            StreamClassifier(NAMES, epsilon=1, ledger=account(), **other)  # type: ignore[arg-type]
    with pytest.raises(ldp.LabelDPError):
        StreamClassifier(("a", "b"), epsilon=1, ledger=account(), run="pets")
    assert account().spent.epsilon() == 1


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([1, 2], "cat", "^x must be a dictionary"),
        ({"a": [1]}, "cat", "the feature 'a' must be a number"),
        ({"a": float("inf")}, "cat", "the feature 'a' must be finite"),
        ({"a": 1}, "cow", "outside|domain|classes"),
        ({"a": 1}, None, "missing|outside|domain|classes"),
    ],
)
def test_what_is_refused_releases_and_teaches_nothing(x: Any, y: Any, words: str) -> None:
    stream = StreamClassifier(NAMES, epsilon=1, rng=RNG(0))
    stream.learn_one({"a": 3}, "dog")
    before = stream.predict_proba_one({"a": 2})
    with pytest.raises(ldp.privacy.InputError, match=words) as refused:
        stream.learn_one(x, y)
    assert "cow" not in str(refused.value)
    assert stream.labels == 1 and stream.predict_proba_one({"a": 2}) == before


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"classes": ("one",)}, "class"),
        ({"rate": 0}, "^rate must"),
        ({"run": ""}, "^run must"),
        ({"ledger": 3}, "^ledger must"),
        ({"rng": 3}, "rng"),
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any], words: str) -> None:
    ledger = ldp.Ledger(ldp.Budget(1))
    with pytest.raises(ldp.privacy.InputError, match=words):
        StreamClassifier(**({"classes": NAMES, "epsilon": 1, "ledger": ledger} | wrong))
    assert not ledger.charges


def test_a_copy_a_pickle_and_a_fork_are_refused() -> None:
    stream = StreamClassifier(NAMES, epsilon=1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ldp.privacy.InputError, match="cannot be copied"):
            copied(stream)
    child = os.fork()
    if child == 0:
        try:
            stream.release_one("cat")
        except ldp.privacy.InputError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_text_of_it_shows_no_label() -> None:
    stream = StreamClassifier(NAMES, epsilon=1, run="pets")
    stream.learn_one({"sound": "meow"}, "cat")
    assert repr(stream) == "StreamClassifier(classes=3, run='pets', labels=1)"
    assert "meow" not in repr(stream.model) and "features=1" in repr(stream.model)


def test_river_plays_it() -> None:
    """River's evaluation predicts each record before it learns from its label."""
    pytest.importorskip("river")
    from river import base, evaluate, metrics

    base.Classifier.register(StreamClassifier)  # its metrics take its own base class alone
    stream, metric = StreamClassifier(NAMES, epsilon=4, rng=RNG(0)), metrics.Accuracy()
    evaluate.progressive_val_score(records(3000), stream, metric)
    assert metric.get() > 0.7 and stream.labels == 3000
