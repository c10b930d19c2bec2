"""What a fit is asked to do."""

import hashlib
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.fit.parsing import decimal_float, domain_of, domain_words, epsilon_of
from labeldp.learners import DEFAULTS, EVALUATED, Learner, learner_of
from labeldp.mechanisms import Classes, Domain, Interval
from labeldp.privacy import Budget, InputError, decimal, decimal_text, float_above
from labeldp.tables import domain_in_file

Ids = list[bytes] | NDArray[Any]
"""Record ids as the randomness takes them: texts, or integers."""

STAGES = 1
"""What measured best (`docs/results/learning.md`)."""


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
        model: a name of `LEARNERS`.
        chosen: what the model "auto" took, if it is not what the trust has by itself: a name of
            `labeldp.fit.choice.WAYS`.
        stages: 1, 2, …
        prior: "none", or "clusters" with central trust.
        id_column: record ids, which are no feature; row numbers by default.
        epochs: of each stage of a network; None for what its recipe says.
        init: a directory with a fitted network, whose weights are the first ones.
        cells: how many, for the model "cells"; None to choose.
        neighbors: how many, for the model "neighbors"; None to choose.
        network: beside the linear model, for the model "distilled".
        person_column: whose each record is, which is no feature; None to protect each record by itself.
        per_person: how many records of a person are used at most; None to choose.
        evaluation: the share of the records that the model is measured on and does not learn from; None for what its
            recipe says.
        shared: what a person pays, where `epsilon` is what each of their answers costs; None where that is one thing.
        curator: the address of a server that holds the labels, as `labeldp.connect` takes it; None for labels in the
            file.
        other_ids: whether labels may be charged once more that were released under another kind of ids.
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
    person_column: str | None = None
    per_person: int | None = None
    shared: float | None = None
    evaluation: float | None = None
    curator: str | None = None
    other_ids: bool = False

    def __post_init__(self) -> None:
        if self.evaluation is not None:
            from labeldp.learners import check_evaluation  # a certificate is read without learners

            check_evaluation(self.evaluation)
            if not self.evaluation:
                raise InputError("must be a share of the records above 0, or be left out", argument="evaluation")

    @property
    def asked(self) -> float:
        """The epsilon that was asked for: what the fit costs a label, or a person."""
        return self.epsilon if self.shared is None else self.shared

    @property
    def target(self) -> str:
        """What is learned: "classes" or "numbers"."""
        return "numbers" if isinstance(self.domain, Interval) else "classes"

    @property
    def options(self) -> dict[str, Any]:
        """The options of learners."""
        return {name: getattr(self, name) for name in DEFAULTS}

    @property
    def chooses(self) -> bool:
        """Whether the model is still to be chosen: of labels that are not released in stages."""
        return self.model == "auto" and self.chosen is None and self.options == DEFAULTS

    def learner(self, *, images: bool = False) -> Learner:
        """Return what learns, of a table or of images; see `learner_of`."""
        return learner_of(
            self.model, trust=self.trust, target=self.target, images=images, delta=self.delta, **self.options
        )

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
        **others: Any,
    ) -> "FitSettings":
        """Settings as they are written on a command line, but for the domain of labels that a server holds: `held`.

        Raises:
            InputError: the first that is wrong.
        """
        if held is not None and (classes, interval, grid, clip) != (None, None, None, False):
            raise InputError("--classes, --range, --grid and --clip do not go with --curator: the server says them")
        domain = domain_in_file(domain_of(classes, interval, grid, clip=clip)) if held is None else held
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
            **others,
        )

    def command(self, data: Any, ledger: Any, out: str, test: str | None) -> str:
        """Return the command line that repeats the fit; files by name, not by folder."""
        words = ["labeldp", "fit", *([Path(data).name] if isinstance(data, str) else [])]
        if self.curator is None:
            words += ["--label", self.label, *domain_words(self.domain)]
            held = ["--ledger", Path(ledger).name]
        else:
            held = [
                "--curator",
                f"unix:{Path(self.curator).name}" if self.curator.startswith("unix:") else self.curator,
            ]
        words += ["--epsilon", decimal_text(self.asked), *held, "--dataset", self.dataset]
        words += ["--delta", decimal_text(self.delta)] if self.delta else []
        words += ["--id", self.id_column] if self.id_column else []
        words += ["--person", self.person_column] if self.person_column else []
        words += ["--per-person", str(self.per_person)] if self.per_person else []
        words += ["--out", Path(out).name, "--trust", self.trust, "--model", self.model]
        words += ["--stages", str(self.stages)] if self.stages != STAGES else []
        words += ["--prior", self.prior] if self.prior != "none" else []
        words += ["--network", self.network] if self.network else []
        words += ["--epochs", str(self.epochs)] if self.epochs else []
        words += ["--init", Path(self.init).name] if self.init else []
        words += ["--cells", str(self.cells)] if self.cells else []
        words += ["--neighbors", str(self.neighbors)] if self.neighbors else []
        words += ["--evaluation", decimal_text(self.evaluation)] if self.evaluation else []
        words += ["--features", ",".join(self.features)] if self.features else []
        words += ["--cohort", self.cohort] if self.cohort else []
        words += ["--revision", self.revision] if self.revision else []
        words += ["--test", Path(test).name] if test else []
        return shlex.join(words)

    def run(self, features: NDArray[Any], ids: Ids | None, init: str = "") -> str:
        """Return a name for the run: the same settings on the same features and ids find their stages again.

        Args:
            features: public.
            ids: of the records, or None for row numbers.
            init: a digest of the first weights, where they are not fresh.
        """
        description: list[Any] = [
            self.label,
            *(self.domain.names if isinstance(self.domain, Classes) else [self.domain.to_json()]),
            str(self.epsilon),
            self.model,
            self.stages,
            self.prior,
        ]
        description += [str(self.delta)] if self.delta else []
        others: dict[str, Any] = {"epochs": self.epochs, "init": init, "cells": self.cells}
        others |= {"neighbors": self.neighbors, "network": self.network, "chosen": self.chosen}
        # The share that is a default, too, gives the same parts: they are not charged again for being asked for.
        share = None if self.evaluation == EVALUATED else self.evaluation
        others |= {"person": self.person_column, "evaluation": share}
        description += [[name, value] for name, value in others.items() if value]
        return f"fit {public_digest(features, ids, self.id_column, json.dumps(description))[:32]}"


def public_digest(features: NDArray[Any], ids: Ids | None, id_column: str | None, begin: str = "") -> str:
    """Return the SHA-256 of features and ids, which are public, in this order of the records.

    Args:
        features: encoded, shape (n, …).
        ids: of the records, or None for row numbers.
        id_column: the name of the ids.
        begin: what is digested before them.
    """
    digest = hashlib.sha256(begin.encode())
    digest.update(repr(features.shape).encode() + np.ascontiguousarray(features).tobytes())
    if ids is not None:
        texts = isinstance(ids, list)
        digest.update(json.dumps([id_column, texts, [len(each) for each in ids] if texts else []]).encode())
        digest.update(b"".join(ids) if isinstance(ids, list) else np.ascontiguousarray(ids).tobytes())
    return digest.hexdigest()
