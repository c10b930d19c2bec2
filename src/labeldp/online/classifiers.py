"""Private classes that come one by one: each is randomized once, and learned from at once, with river's verbs."""

import math
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from labeldp.curator import Ledger
from labeldp.mechanisms import Classes, RandomizedResponse
from labeldp.privacy import (
    Budget,
    Certificate,
    InputError,
    LedgerLike,
    PendingCharge,
    PrivacyLoss,
    RandomSource,
    SingleProcess,
    SystemRandomness,
    Trust,
    Unit,
    as_successive,
    check_positive,
    even_if_refused,
)

RATE = 0.1
"""The first step of a weight. On made-up streams a step of 0.3 learned as much, and one of 1 less."""

FARTHEST = 5.0
"""Standardized features are clipped at this distance from their mean."""

_TRACES = (("labels as they come", "classes", "seen after the charge"),)
"""The traces of the labels in a durable ledger, which charges them before it sees one."""


@final
@dataclass(frozen=True)
class StreamResponse:
    """Randomized response to labels that are still to come, as one mechanism that is charged before the first.

    Args:
        response: answers each label.
        run: the name of the stream, whose labels are charged once.
    """

    response: RandomizedResponse
    run: str
    trust: ClassVar[Trust] = Trust.LOCAL
    neighbors: ClassVar[Unit] = Unit.ONE_LABEL
    basis: ClassVar[tuple[Certificate, ...]] = ()

    @property
    def published(self) -> str:
        """The released values, in one phrase."""
        return f"{self.response.published} of the stream {self.run!r}"

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The conditions of the guarantee, in words."""
        return (
            *self.response.assumptions,
            f"each label is given to the stream {self.run!r} once (a repeated label gets new, uncharged noise)",
        )

    @property
    def loss(self) -> PrivacyLoss:
        """What the answer to a label costs it, however many labels there are."""
        return self.response.privacy_loss()

    def arrays(self) -> None:
        """Return None: there is no array with a row for each record."""

    def specification(self) -> dict[str, Any]:
        """Return the public fields as plain JSON values."""
        return {"mechanism": "StreamResponse", "run": self.run, "response": self.response.specification()}


class OnlineSoftmax:
    """A linear softmax that learns from released classes one by one: gradient steps on the likelihood of each answer.

    All of it is public, as what was released is: it may be copied, pickled and published. Each weight has its own rate,
    which falls with the gradients that it saw. Numbers are standardized by the records so far.

    Args:
        response: what answered the labels, on `Classes`.
        rate: the first step of each weight, positive.

    Source: Patrini, forward correction.
    """

    def __init__(self, response: RandomizedResponse, rate: float = RATE) -> None:
        assert isinstance(response.domain, Classes)
        self.response, self.classes = response, response.domain.names
        self.rate = check_positive(rate, "rate")
        self._law = response.matrix()
        self._places: dict[str, int] = {}
        self._weights, self._squares = (np.full((1, response.domain.size), start) for start in (0.0, 1e-6))
        self._seen, self._means, self._spreads = (np.zeros(1) for _ in range(3))

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[str | int, float]:
        """Return the probability of each class of a record, by its name.

        Args:
            x: features by name: numbers, truth values, or texts, each a category. Missing and unknown
                ones count nothing.

        Raises:
            InputError: a feature is something else.
        """
        probabilities = self._probabilities(*self._values(_features(x)))
        return dict(zip(self.classes, probabilities.tolist(), strict=True))

    def predict_one(self, x: Mapping[str, Any]) -> str | int:
        """Return the likeliest class of a record, ties to the first."""
        probabilities = self.predict_proba_one(x)
        return max(probabilities, key=probabilities.__getitem__)

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Learn from the released class of a record.

        Args:
            x: features by name.
            y: the name of the class that was answered.

        Raises:
            InputError: a feature cannot be used, or y is no class.
        """
        self._step(_features(x), int(self.response.domain.encode([y])[0]))

    def _step(self, features: list[tuple[str, float, bool]], code: int) -> None:
        self._meet(features)
        places, values = self._values(features)
        probabilities = self._probabilities(places, values)
        truth = probabilities * self._law[:, code]
        gradient = np.outer(values, probabilities - truth / truth.sum())
        self._squares[places] += gradient**2
        self._weights[places] -= self.rate * gradient / np.sqrt(self._squares[places])

    def _meet(self, features: list[tuple[str, float, bool]]) -> None:
        """Make room for new features, and update means and spreads of numbers."""
        for name, value, number in features:
            row = self._places.setdefault(name, len(self._places) + 1)
            if row == len(self._weights):
                self._grow()
            if number:
                self._seen[row] += 1
                before = value - self._means[row]
                self._means[row] += before / self._seen[row]
                self._spreads[row] += before * (value - self._means[row])

    def _grow(self) -> None:
        for name, start in (("_weights", 0.0), ("_squares", 1e-6), ("_seen", 0.0), ("_means", 0.0), ("_spreads", 0.0)):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.full_like(old, start)]))

    def _values(self, features: list[tuple[str, float, bool]]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return places and values of known features, after the constant: numbers standardized, categories 1."""
        places, values = [0], [1.0]
        for name, value, number in features:
            row = self._places.get(name)
            if row is None:
                continue
            if number:
                spread = math.sqrt(self._spreads[row] / self._seen[row])
                value = (value - self._means[row]) / spread if spread > 0 else 0.0
            places.append(row)
            values.append(min(max(value, -FARTHEST), FARTHEST))
        return np.array(places), np.array(values)

    def _probabilities(self, places: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(softmax(values @ self._weights[places]))

    @even_if_refused
    def __repr__(self) -> str:
        return f"OnlineSoftmax(response={self.response!r}, features={len(self._places)})"


def _features(x: Any) -> list[tuple[str, float, bool]]:
    """Return features as (name, value, whether it is a number); missing ones are left out.

    Raises:
        InputError: not a mapping of names to numbers, truth values or texts.
    """
    if not isinstance(x, Mapping):
        raise InputError("must be a dictionary of features by name, such as {'age': 41, 'job': 'nurse'}", argument="x")
    return list(_known(x))


def _known(x: Mapping[Any, Any]) -> Iterator[tuple[str, float, bool]]:
    for name, value in x.items():
        if value is None:
            continue
        if isinstance(value, str):
            yield f"{name}={value}", 1.0, False
            continue
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f": the feature {name!r} must be a number, a truth value or a text", argument="x"
            ) from None
        if math.isinf(number):
            raise InputError(f": the feature {name!r} must be finite", argument="x")
        if not math.isnan(number):
            yield str(name), number, True


@final
class StreamClassifier(SingleProcess):
    """A classifier with river's verbs whose `learn_one` takes private labels: it randomizes each once, then learns.

    Everything is charged before the first label: epsilon, which is what its own answer costs each label, however many
    there are. Predictions and `model` rest on released labels alone and are public.

    Args:
        classes: the possible labels, or `Classes`; never read from the labels.
        epsilon: what the answer to a label costs it.
        rate: see `OnlineSoftmax`.
        model: an `OnlineSoftmax` of the same classes and epsilon to continue with; a new one by default.
        rng, ledger, dataset: as for `PrivateExperts`.
        run: the name of the stream. In a ledger file a stream of the same name and epsilon continues at no cost, for
            labels that it has not answered yet. By default a new name, which is charged anew.

    Guarantee (charged_first, refusal, no_copy): epsilon-DP for each label that is given once: it is charged before the
        first label is randomized; of a label or features that are refused nothing is released; a copy, a pickle or a
        fork is refused.

    Raises:
        InputError: an argument is wrong; nothing was charged.
        BudgetExceeded: nothing was charged.

    Examples:
        >>> import numpy as np
        >>> stream = StreamClassifier(("no", "yes"), epsilon=2, rng=np.random.default_rng(0))
        >>> for age in np.random.default_rng(1).uniform(18, 80, 2000):
        ...     stream.learn_one({"age": age}, "yes" if age > 50 else "no")
        >>> stream.predict_one({"age": 75}), stream.predict_one({"age": 25})
        ('yes', 'no')
        >>> stream.ledger.spent.epsilon()
        2.0
    """

    _supervised, _multiclass = True, True  # what river asks of a classifier
    _why_no_copy = (
        "a stream cannot be copied or pickled: each copy would answer the same labels again. Its model can: "
        "StreamClassifier(…, model=stream.model, ledger=…, run=…) continues with it"
    )
    _why_no_fork = "this stream belongs to the process that made it: its fork would answer labels again"

    def __init__(
        self,
        classes: Any,
        epsilon: Any,
        *,
        rate: float = RATE,
        model: OnlineSoftmax | None = None,
        rng: RandomSource | None = None,
        ledger: LedgerLike | None = None,
        dataset: str = "labels",
        run: str | None = None,
    ) -> None:
        domain = Classes.of(classes)
        response = RandomizedResponse(domain=domain, epsilon=epsilon)
        if model is not None and (not isinstance(model, OnlineSoftmax) or model.response != response):
            raise InputError("must be an OnlineSoftmax of the same classes and epsilon", argument="model")
        if run is not None and not (isinstance(run, str) and run):
            raise InputError("must be a name, such as 'clicks of 2026'", argument="run")
        self.model = OnlineSoftmax(response, rate) if model is None else model
        self._rng = as_successive(SystemRandomness() if rng is None else rng)
        self._mechanism = StreamResponse(response, secrets.token_hex(8) if run is None else run)
        self._ledger: LedgerLike = Ledger(Budget(epsilon), dataset) if ledger is None else ledger
        if not callable(getattr(self._ledger, "charging", None)):
            raise InputError(
                "must be one, such as Ledger(Budget(1)) or LedgerFile(path).dataset(name)", argument="ledger"
            )
        self._lock, self._labels = threading.Lock(), 0
        self._claim_process()
        with self._ledger.comparing(domain):
            pass  # a file writes the classes down before a label is compared with them
        request = PendingCharge(
            mechanism=self._mechanism.specification(),
            loss=self._mechanism.loss,
            labels=self._mechanism.run,
            randomness=self._rng.kind,
            source=self._rng.identity,
            traces=_TRACES,
        )
        with self._ledger.charging(request, self._mechanism) as draw:
            if draw.is_new:
                draw.value = np.zeros(0, np.uint8)  # labels come later
        self._certificate = draw.release.certificate

    @property
    def ledger(self) -> Any:
        """The ledger that was charged."""
        return self._ledger

    @property
    def certificate(self) -> Certificate:
        """The certificate of every label that is ever answered."""
        return self._certificate

    @property
    def run(self) -> str:
        """The name of the stream."""
        return self._mechanism.run

    @property
    def classes(self) -> tuple[str | int, ...]:
        """The names of the classes, in order."""
        return self.model.classes

    @property
    def labels(self) -> int:
        """How many labels were randomized by this object."""
        return self._labels

    def release_one(self, y: Any) -> str | int:
        """Randomize one label, and return the class that is answered; for a learner of your own.

        Raises:
            InputError: y is no class; nothing was released.
        """
        with self._lock:
            return self.classes[self._answered(y)]

    def _answered(self, y: Any) -> int:
        """Return the code that answers a label; `_lock` is held."""
        self.check_process()
        response = self._mechanism.response
        try:
            code = response.domain.encode([y])
        except InputError:  # once more by the ledger: a file counts refusals
            with self._ledger.comparing(response.domain):
                code = response.domain.encode([y])
        self._labels += 1
        return int(response.randomize(code, rng=self._rng)[0])

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Randomize the label of a record, and learn from the answer.

        Args:
            x: public features by name, as `OnlineSoftmax.predict_proba_one` takes them.
            y: the private label, a class.

        Raises:
            InputError: a feature cannot be used, or y is no class; nothing was released.
        """
        features = _features(x)
        with self._lock:
            self.model._step(features, self._answered(y))

    def predict_one(self, x: Mapping[str, Any]) -> str | int:
        """Return the likeliest class of a record; see `OnlineSoftmax`."""
        return self.model.predict_one(x)

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[str | int, float]:
        """Return the probability of each class of a record; see `OnlineSoftmax`."""
        return self.model.predict_proba_one(x)

    @even_if_refused
    def __repr__(self) -> str:
        return f"StreamClassifier(classes={len(self.classes)}, run={self.run!r}, labels={self._labels})"
