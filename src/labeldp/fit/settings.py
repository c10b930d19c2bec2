"""What a fit is asked to do, parsed from the texts of a command line."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import DEFAULTS, learner_of
from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import Budget, InputError, NamedFile, Request, Source, decimal, float_above, stored_fraction
from labeldp.tables import FORMATS

if TYPE_CHECKING:
    from labeldp.learners import Learner
from contextlib import suppress

from labeldp.privacy import positive_epsilon


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
    """Return whether a path is of images, as `labeldp.images` says, which is not loaded for a file named as a table."""
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


def epsilon_of(text: str) -> float:
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

OPTIONS = ("trust", "chosen", "epochs", "cells", "neighbors", "network", "evaluation", "other_ids", "encoder")
"""The settings that are options of a request, beside `stages` and `prior`."""


@dataclass(frozen=True)
class FitSettings:
    """What a fit is asked to do; all of it is public, and a fit with the same settings is the same fit.

    Args:
        label: the private column.
        domain: the declared classes, or the range of numbers.
        epsilon: what the fit costs.
        delta: what the fit may cost beside epsilon; 0 for a pure guarantee.
        dataset: the dataset's name in the ledger.
        cohort: names a cohort of the dataset, whose records alone are fitted; None for all records.
        revision: names a new state of the labels, or None.
        features: feature columns; None for all but the label, the ids and the index of a pandas data frame.
        trust: "local" or "central".
        model: a name of `LEARNERS`, or "auto".
        chosen: what the model "auto" took, as the name of a `Choice`; None where nothing was chosen yet.
        stages: 1, 2, …
        prior: "none", or "clusters" with central trust.
        id_column: record ids, which are no feature; row numbers by default.
        epochs: of each stage of a network; None for what its network says.
        init: a directory with a fitted network, whose weights are the first ones.
        cells: how many, for the model "cells"; None to choose.
        neighbors: how many, for the model "neighbors"; None to choose.
        network: a key of `IMAGE_NETWORKS`, for the models "network" and "distilled".
        user_column: the user of each record, which is no feature; None to protect each record by itself.
        per_user: how many records of a user are used at most; None to choose.
        evaluation: the share of the records that the model is measured on and does not learn from; None for what its
            learner says.
        shared: what a user pays, where `epsilon` is what each of their answers costs; None where that is one thing.
        curator: the address of a server that holds the labels, as `labeldp.connect` takes it; None for labels in the
            file.
        other_ids: whether labels may be charged once more that were released under another kind of ids.
        new_budget: of a ledger that does not exist yet; by default what the fit costs.
        encoder: a key of `ENCODERS`, the public network whose features are learned from; None for features as they are.
    """

    label: str
    domain: Classes | Interval
    epsilon: float
    delta: float
    dataset: str
    cohort: str | None = None
    revision: str | None = None
    features: tuple[str, ...] | None = None
    trust: str = "local"
    model: str = "auto"
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
    shared: float | None = None
    evaluation: float | None = None
    curator: str | None = None
    other_ids: bool = False
    new_budget: Budget | None = field(default=None, compare=False)
    encoder: str | None = None

    def __post_init__(self) -> None:
        if self.evaluation is not None:
            from labeldp.learners import check_evaluation  # a certificate is read without scikit-learn

            check_evaluation(self.evaluation)
            if not self.evaluation:
                raise InputError("must be a share of the records above 0, or be left out", argument="evaluation")

    @property
    def asked(self) -> float:
        """The epsilon that was asked for: what the fit costs a label, or a user."""
        return self.epsilon if self.shared is None else self.shared

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
        delta = 0.0 if self.trust == "local" and self.user_column is not None else self.delta  # of a user's answers
        images = images and not self.encoder
        return learner_of(self.model, trust=self.trust, target=self.target, images=images, delta=delta, **self.options)

    @classmethod
    def parse(
        cls,
        *,
        epsilon: str,
        delta: str,
        features: str | None,
        stages: int | None,
        evaluation: str | None = None,
        classes: str | None = None,
        interval: str | None = None,
        grid: int | None = None,
        clip: bool = False,
        held: Domain | None = None,
        **fields: Any,
    ) -> "FitSettings":
        """Parse settings of a command line; `held` is the domain of labels that a server holds.

        Raises:
            InputError: the first that is wrong.
        """
        if held is not None and (classes, interval, grid, clip) != (None, None, None, False):
            raise InputError("--classes, --range, --grid and --clip do not go with --curator: the server says them")
        domain = domain_of(classes, interval, grid, clip=clip).in_file() if held is None else held
        assert isinstance(domain, Classes | Interval)
        columns = None if features is None else tuple(name.strip() for name in features.split(","))
        budget = Budget(epsilon_of(epsilon), float_above(decimal(delta, "delta")))
        return cls(
            domain=domain,
            epsilon=budget.epsilon,
            delta=budget.delta,
            features=columns,
            stages=stages or STAGES,
            evaluation=None if evaluation is None else decimal_float(evaluation, "evaluation"),
            **fields,
        )

    def request(self, source: Source, *, cap: int = 0, files: Mapping[str, NamedFile] | None = None) -> Request:
        """Return the request."""
        options: dict[str, Any] = {name: getattr(self, name) or None for name in OPTIONS}
        options |= {"stages": self.stages, "prior": self.prior}
        account = {"domain": self.domain, "cohort": self.cohort, "revision": self.revision}
        options |= {"server": self.curator is not None or None, **account}
        return Request.of(
            "fit", self.model, self.dataset, source, self.asked, self.delta, cap=cap, files=files, **options
        )

    @classmethod
    def of(cls, request: Request, init: str | None = None) -> "FitSettings":
        """Return the settings that asked for this.

        Args:
            request: of a fit in this process: one of labels on a server is not asked again without it.
            init: the directory with the first weights, where there are some.

        Raises:
            InputError: not such a request.
        """
        domain, source = Domain.from_json(request.domain), request.source
        if request.kind != "fit" or not isinstance(domain, Classes | Interval):
            raise InputError("is not of a fit", argument="request")
        epsilon, delta = (float_above(stored_fraction(text)) for text in (request.epsilon, request.delta))
        return cls(
            source.label,
            domain,
            epsilon,
            delta,
            request.scope.name,
            cohort=request.scope.cohort or None,
            revision=request.scope.revision or None,
            features=source.features or None,
            model=request.does,
            id_column=source.ids or None,
            user_column=source.users or None,
            per_user=request.cap or None,
            init=init,
            **{name: value for name, value in request.options.items() if name != "server"},
        )


def public_digest(features: NDArray[Any], ids: Ids | None, id_column: str | None) -> str:
    """Return the SHA-256 of features and ids; ids count as texts, in whose order records are taken."""
    if ids is not None:
        ids = ids if isinstance(ids, list) else [str(number).encode() for number in ids.tolist()]
        order = sorted(range(len(ids)), key=ids.__getitem__)
        features, ids = features[order], [ids[row] for row in order]
    digest = hashlib.sha256(repr(features.shape).encode() + np.ascontiguousarray(features).tobytes())
    if ids is not None:
        digest.update(json.dumps([id_column, True, [len(text) for text in ids]]).encode())
        digest.update(b"".join(ids))
    return digest.hexdigest()
