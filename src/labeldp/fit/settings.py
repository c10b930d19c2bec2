"""What a fit is asked to do, parsed from the texts of a command line."""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import AUTO, DEFAULTS, learner_of
from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import InputError, Request, Source, check_integer, decimal, float_above, positive_epsilon
from labeldp.tables import FORMATS

if TYPE_CHECKING:
    from labeldp.learners import Learner


def classes_of(text: str) -> Classes:
    """Parse `no,yes` as class names, `10` as codes 0 to 9.

    Raises:
        InputError: there are fewer than two classes, or a name is repeated.
    """
    names = [name.strip() for name in text.split(",")]
    if len(names) == 1 and names[0].isascii() and names[0].isdecimal():
        return Classes(int(names[0]))
    if not all(names):
        raise InputError("--classes must hold names separated by commas, such as no,yes, or a number of classes")
    return Classes(tuple(names))


def names_images(path: str) -> bool:
    """Return whether a path is of images; for a file with the suffix of a table, `labeldp.images` is not loaded."""
    if any(kind.names(Path(path)) for kind in FORMATS.values()) and not os.path.isdir(path):
        return False
    from labeldp.images import names_images as is_image_source

    return is_image_source(path)


def domain_of(classes: str | None, interval: str | None, grid: int | None = None, *, clip: bool = False) -> Domain:
    """Parse the declared domain: either classes or a range.

    Raises:
        InputError: neither or both are given, the range is invalid, or `--grid` or `--clip` comes without one.
    """
    if (classes is None) == (interval is None):
        raise InputError(
            "declare the labels' domain by --classes no,yes or by --range LOW,HIGH: it is never read off labels"
        )
    if classes is not None:
        if clip:
            raise InputError("--clip goes with --range: it counts numbers outside as the nearest end")
        if grid is not None:
            raise InputError("--grid goes with --range: it is the number of its points")
        return classes_of(classes)
    assert interval is not None
    ends = interval.split(",")
    if len(ends) != 2:
        raise InputError("--range must hold two numbers, such as --range 0,100")
    try:
        low, high = map(float, ends)
    except ValueError:
        raise InputError("--range must hold two numbers, such as --range 0,100") from None
    if not low < high:
        raise InputError("--range must hold two numbers, the lower one first, such as --range 0,100")
    try:
        return Interval(low, high, clip=clip) if grid is None else Interval(low, high, grid, clip)
    except InputError as error:
        if not {"low", "high"} & set(error.arguments):
            raise
    raise InputError(
        "--range must hold finite numbers of ordinary size that floats can tell apart, such as --range 0,100"
    )


def decimal_float(text: str, name: str) -> float:
    """Parse a number; raise InputError if it is not one."""
    try:
        return float(text)
    except ValueError:
        raise InputError("must be a number", argument=name) from None


def epsilon_of(text: Any) -> float:
    """Parse a positive epsilon; raise InputError if it is not one."""
    return float_above(positive_epsilon(text.strip() if isinstance(text, str) else text))


def whole_number(text: Any, name: str) -> int:
    """Parse a whole number, such as 1e6, from 1 to 2^62; raise InputError if it is not one."""
    with suppress(InputError):
        exact = decimal(text, name)
        if exact.denominator == 1 and 1 <= exact < 1 << 62:
            return exact.numerator
    raise InputError("must be a whole number, at least 1, such as 1e6", argument=name)


def parts_of(text: str, name: str, choices: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Split a text at its commas, without repetitions.

    Raises:
        InputError: a part is empty, or not among the choices if there are any.
    """
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if any(not part or (choices and part not in choices) for part in parts):
        allowed = " or ".join(choices) if choices else "numbers"
        raise InputError(f"must hold {allowed}, separated by commas", argument=name)
    return parts


Ids = list[bytes] | NDArray[Any]
"""Record ids as the randomness takes them: texts, or integers."""

STAGES = 1
"""What measured best (`docs/results/tables.md`)."""


@dataclass(frozen=True)
class FitSettings:
    """What the request of a fit says, as typed values; `of` makes them.

    Args:
        label: the private column.
        domain: the declared classes, or the range of numbers.
        epsilon: what the fit costs. Where users are protected and labels randomized, a `Job` has here what one of a
            user's answers costs.
        delta: what the fit may cost beside epsilon; 0 for a pure guarantee.
        dataset: the dataset's name in the ledger.
        features: feature columns; None for all but the label, the ids and the index of a pandas data frame.
        trust: "local" or "central".
        model: a name of `LEARNERS`, or "auto".
        chosen: with the model "auto" the name of the `Choice` that it took; None where nothing was chosen yet.
        stages: 1, 2, …
        prior: "none", or "clusters" with central trust.
        id_column: record ids, which are no feature; row numbers by default.
        epochs: of each stage of a network; None for what its network says.
        init: the name of a directory with a fitted network, whose weights are the first ones.
        cells: how many, for the model "cells"; None to choose.
        neighbors: how many, for the model "neighbors"; None to choose.
        network: a key of `IMAGE_NETWORKS`, for the models "network" and "distilled".
        user_column: the user of each record, which is no feature; None to protect each record by itself.
        per_user: how many records of a user are used at most; None to choose.
        evaluation: the share of the records that the model is measured on and does not learn from; None for what its
            learner says.
        server: whether a server holds the labels.
        other_ids: whether labels may be charged once more that were released under another kind of ids.
        encoder: a key of `ENCODERS`, the public network whose features are learned from; None for features as they are.
    """

    label: str
    domain: Classes | Interval
    epsilon: float
    delta: float
    dataset: str
    features: tuple[str, ...] | None = None
    trust: str = "local"
    model: str = AUTO
    chosen: str | None = None
    stages: int = STAGES
    prior: str = "none"
    id_column: str | None = None
    epochs: int | None = None
    init: str | None = None
    cells: int | None = None
    neighbors: int | None = None
    network: str | None = None
    user_column: str | None = None
    per_user: int | None = None
    evaluation: float | None = None
    server: bool = False
    other_ids: bool = False
    encoder: str | None = None

    def __post_init__(self) -> None:
        if self.evaluation is not None:
            from labeldp.learners import check_evaluation  # a certificate is read without scikit-learn

            check_evaluation(self.evaluation)
            if not self.evaluation:
                raise InputError("must be a share of the records above 0, or be left out", argument="evaluation")

    @property
    def target(self) -> str:
        """The kind of labels to learn: "classes" or "numbers"."""
        return self.domain.target

    @property
    def options(self) -> dict[str, Any]:
        """The options of learners."""
        return {name: getattr(self, name) for name in DEFAULTS}

    def learner(self, *, images: bool = False) -> "Learner":
        """Return the learner of the named model, of a table or of images; see `learner_of`."""
        # Randomized labels of a user share the user's delta; the mechanism of each is pure.
        delta = 0.0 if self.trust == "local" and self.user_column is not None else self.delta
        images = images and not self.encoder
        return learner_of(self.model, trust=self.trust, target=self.target, images=images, delta=delta, **self.options)

    @classmethod
    def of(cls, request: Request) -> "FitSettings":
        """Return the settings of a request.

        Raises:
            InputError: it is not of a fit.
        """
        domain, source, budget = Domain.from_json(request.domain), request.source, request.budget
        if request.kind != "fit" or not isinstance(domain, Classes | Interval):
            raise InputError("is not of a fit", argument="request")
        request.check_options()
        return cls(
            source.label,
            domain,
            float_above(budget.epsilon),
            float_above(budget.delta),
            request.scope.name,
            features=source.features or None,
            model=request.does,
            id_column=source.ids or None,
            user_column=source.users or None,
            per_user=request.cap or None,
            init=request.files["init"].name if "init" in request.files else None,
            **request.options,
        )


def fit_request(
    label: str,
    domain: Domain,
    epsilon: Any,
    delta: Any,
    dataset: str,
    *,
    features: Sequence[str] | None = None,
    id_column: str | None = None,
    user_column: str | None = None,
    per_user: int | None = None,
    model: str = AUTO,
    trust: str = "local",
    stages: int = STAGES,
    prior: str = "none",
    **options: Any,
) -> Request:
    """Return the request of a fit, for `fit_file`.

    Args:
        label, domain, epsilon, delta, dataset, features, id_column, user_column, per_user: see `FitSettings`.
        model, trust, stages, prior: see `FitSettings`.
        options: cohort, revision, and the other arguments of `FitSettings` but `init`, which `fit_file` takes.

    Raises:
        InputError: the first that is wrong.
    """
    if per_user is not None:
        check_integer(per_user, "--per-user")
    source = Source.of(None, label, id_column, user_column, features=features)
    options |= {"domain": domain, "trust": trust, "stages": stages, "prior": prior, "cap": per_user}
    request = Request.of("fit", model, dataset, source, epsilon, delta, **options)
    FitSettings.of(request)  # refuses a wrong option
    return request


def parse_fit(
    *,
    epsilon: str,
    delta: str,
    features: str | None = None,
    stages: int | None = None,
    evaluation: str | None = None,
    classes: str | None = None,
    interval: str | None = None,
    grid: int | None = None,
    clip: bool = False,
    held: Domain | None = None,
    label: str,
    dataset: str,
    **options: Any,
) -> Request:
    """Parse the request of a command line; `held` is the domain of labels that a server holds.

    Raises:
        InputError: the first that is wrong.
    """
    if held is not None and (classes, interval, grid, clip) != (None, None, None, False):
        raise InputError("--classes, --range, --grid and --clip do not go with --curator: the server says them")
    domain = domain_of(classes, interval, grid, clip=clip).in_file() if held is None else held
    columns = None if features is None else tuple(name.strip() for name in features.split(","))
    options |= {"evaluation": None if evaluation is None else decimal_float(evaluation, "evaluation")}
    cost = epsilon_of(epsilon), float_above(decimal(delta, "delta"))
    options |= {"features": columns, "stages": stages or STAGES, "server": held is not None}
    return fit_request(label, domain, *cost, dataset, **options)


def public_digest(features: NDArray[Any], ids: Ids | None, id_column: str | None) -> str:
    """Return the SHA-256 of features and ids, in the order of the ids as texts if there are some."""
    if ids is not None:
        ids = ids if isinstance(ids, list) else [str(number).encode() for number in ids.tolist()]
        order = sorted(range(len(ids)), key=ids.__getitem__)
        features, ids = features[order], [ids[row] for row in order]
    digest = hashlib.sha256(repr(features.shape).encode() + np.ascontiguousarray(features).tobytes())
    if ids is not None:
        digest.update(json.dumps([id_column, True, [len(text) for text in ids]]).encode())
        digest.update(b"".join(ids))
    return digest.hexdigest()
