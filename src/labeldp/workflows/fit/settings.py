"""What a fit is asked to do."""

import hashlib
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import Classes, Interval
from labeldp.privacy import Budget, decimal, decimal_text, float_above
from labeldp.tables import domain_in_file
from labeldp.workflows.parsing import domain_of, epsilon_of

Ids = list[bytes] | NDArray[Any]
"""Record ids as the randomness takes them: texts, or integers."""

GRID = 1025
"""Grid points of a range."""

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
        model: a name of `labeldp.workflows.fit.registry.RECIPES`.
        method: a name of `labeldp.workflows.fit.registry.METHODS`, or None.
        stages: 1, 2, …
        prior: "none", or "clusters" with central trust.
        id_column: record ids, which are no feature; row numbers by default.
        epochs: of each stage of a network; None for what its recipe says.
        init: a directory with a fitted network, whose weights are the first ones.
        cells: how many, for the model "cells"; None to choose.
        neighbors: how many, for the model "neighbors"; None to choose.
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
    method: str | None = None
    stages: int = STAGES
    prior: str = "none"
    id_column: str | None = None
    epochs: int | None = None
    init: str | None = None
    cells: int | None = None
    neighbors: int | None = None

    @property
    def target(self) -> str:
        """What is learned: "classes" or "numbers"."""
        return "numbers" if isinstance(self.domain, Interval) else "classes"

    @classmethod
    def parse(
        cls,
        *,
        epsilon: str,
        delta: str,
        features: str | None,
        stages: int | None,
        classes: str | None = None,
        interval: str | None = None,
        grid: int = GRID,
        clip: bool = False,
        **others: Any,
    ) -> "FitSettings":
        """Settings as they are written on a command line.

        Raises:
            InputError: the first that is wrong.
        """
        domain = domain_in_file(domain_of(classes, interval, grid, clip=clip))
        assert isinstance(domain, Classes | Interval)
        columns = None if features is None else tuple(name.strip() for name in features.split(","))
        budget = Budget(epsilon_of(epsilon), float_above(decimal(delta, "delta")))
        return cls(
            domain=domain,
            epsilon=budget.epsilon,
            delta=budget.delta,
            features=columns,
            stages=stages or STAGES,
            **others,
        )

    def command(self, data: str, ledger: str, out: str, test: str | None) -> str:
        """Return the command line that repeats the fit; files by name, not by folder."""
        words = [
            "labeldp",
            "fit",
            Path(data).name,
            "--label",
            self.label,
            *_domain_words(self.domain),
        ]
        words += ["--epsilon", decimal_text(self.epsilon), "--ledger", Path(ledger).name, "--dataset", self.dataset]
        words += ["--delta", decimal_text(self.delta)] if self.delta else []
        words += ["--id", self.id_column] if self.id_column else []
        words += ["--out", Path(out).name, "--trust", self.trust, "--model", self.model]
        words += ["--stages", str(self.stages), "--prior", self.prior]
        words += ["--method", self.method] if self.method else []
        words += ["--epochs", str(self.epochs)] if self.epochs else []
        words += ["--init", Path(self.init).name] if self.init else []
        words += ["--cells", str(self.cells)] if self.cells else []
        words += ["--neighbors", str(self.neighbors)] if self.neighbors else []
        words += ["--features", ",".join(self.features)] if self.features else []
        words += ["--cohort", self.cohort] if self.cohort else []
        words += ["--revision", self.revision] if self.revision else []
        words += ["--test", Path(test).name] if test else []
        return shlex.join(words)

    def run(self, features: NDArray[Any], ids: Ids | None, init: str = "", variant: str = "") -> str:
        """Return a name for the run: the same settings on the same features and ids find their stages again.

        Args:
            features: public.
            ids: of the records, or None for row numbers.
            init: a digest of the first weights, where they are not fresh.
            variant: of the recipe: see `Recipe.variant`.
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
        others = {"method": self.method, "epochs": self.epochs, "init": init, "variant": variant}
        others |= {"cells": self.cells, "neighbors": self.neighbors}
        description += [[name, value] for name, value in others.items() if value]
        digest = hashlib.sha256(json.dumps(description).encode())
        digest.update(repr(features.shape).encode() + np.ascontiguousarray(features).tobytes())
        if ids is not None:
            texts = isinstance(ids, list)
            digest.update(json.dumps([self.id_column, texts, [len(each) for each in ids] if texts else []]).encode())
            digest.update(b"".join(ids) if isinstance(ids, list) else np.ascontiguousarray(ids).tobytes())
        return f"fit {digest.hexdigest()[:32]}"


def _domain_words(domain: Classes | Interval) -> list[str]:
    """Return the options that declare a domain."""
    if isinstance(domain, Classes):
        return ["--classes", ",".join(map(str, domain.names))]
    words = ["--range", f"{decimal_text(domain.low)},{decimal_text(domain.high)}"]
    words += ["--grid", str(domain.grid)] if domain.grid != GRID else []
    return [*words, "--clip"] if domain.clip else words
