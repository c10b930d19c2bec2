"""What a fit is asked to do, and what it can cost."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.learners import default_clusters, default_epsilon
from labeldp.mechanisms import Classes
from labeldp.privacy import Budget, Charge, PrivacyLoss, all_digits, decimal, positive_epsilon, shortest_float
from labeldp.workflows.labels import domain_in_file
from labeldp.workflows.settings import classes_of, epsilon_of

Ids = list[bytes] | NDArray[Any]
"""Record ids as the randomness takes them: texts, or integers."""

STAGES = 1
"""What measured best (`docs/results/learning.md`)."""


@dataclass(frozen=True)
class FitSettings:
    """What a fit is asked to do; all of it is public, and a fit with the same settings is the same fit.

    Args:
        label: the private column.
        domain: the declared classes.
        epsilon: what the fit costs.
        delta: of the budget of a dataset that the ledger does not know.
        dataset: the dataset's name in the ledger.
        revision: names a new state of the labels, or None.
        features: feature columns; None for all but the label.
        model: a key of `MODELS`.
        stages: 1, 2, …
        prior: "none" or "clusters".
        id_column: record ids, which are no feature; row numbers by default.
    """

    label: str
    domain: Classes
    epsilon: float
    delta: str
    dataset: str
    revision: str | None = None
    features: tuple[str, ...] | None = None
    model: str = "auto"
    stages: int = STAGES
    prior: str = "none"
    id_column: str | None = None

    @classmethod
    def parse(
        cls, *, classes: str, epsilon: str, features: str | None, stages: int | None, **others: Any
    ) -> "FitSettings":
        """Settings as they are written on a command line.

        Raises:
            InputError: the first that is wrong.
        """
        domain = domain_in_file(classes_of(classes))
        assert isinstance(domain, Classes)
        columns = None if features is None else tuple(name.strip() for name in features.split(","))
        Budget(epsilon_of(epsilon), others["delta"])
        return cls(domain=domain, epsilon=epsilon_of(epsilon), features=columns, stages=stages or STAGES, **others)

    def command(self, data: str, ledger: str, out: str, test: str | None) -> str:
        """The command line that repeats the fit; files by name, not by folder."""
        words = [
            "labeldp",
            "fit",
            Path(data).name,
            "--label",
            self.label,
            "--classes",
            ",".join(map(str, self.domain.names)),
        ]
        words += ["--epsilon", all_digits(self.epsilon), "--ledger", Path(ledger).name, "--dataset", self.dataset]
        words += ["--delta", self.delta] if decimal(self.delta, "delta") else []
        words += ["--id", self.id_column] if self.id_column else []
        words += ["--out", Path(out).name, "--model", self.model, "--stages", str(self.stages), "--prior", self.prior]
        words += ["--features", ",".join(self.features)] if self.features else []
        words += ["--revision", self.revision] if self.revision else []
        words += ["--test", Path(test).name] if test else []
        return shlex.join(words)

    def shares(self, records: int) -> tuple[float | None, float]:
        """The epsilon of the cluster prior, where there is one, and what is left for the labels."""
        if self.prior == "none":
            return None, self.epsilon
        total = positive_epsilon(self.epsilon)
        wanted = positive_epsilon(default_epsilon(records, default_clusters(records, self.domain.size)))
        spent = min(wanted, total / 5)
        return shortest_float(spent), shortest_float(total - positive_epsilon(shortest_float(spent)))

    def steps(self) -> tuple[str, ...]:
        """The releases of the fit by the names of their stages, in order."""
        prior = () if self.prior == "none" else ("cluster prior",)
        held = () if self.stages == 1 and not prior else ("evaluation",)
        return (*prior, *(f"stage {number + 1}" for number in range(self.stages)), *held)

    def rest(self, charged: Mapping[str, Charge], records: int) -> tuple[Charge, ...]:
        """What the releases that are not charged yet can come to.

        Args:
            charged: the charges of this very fit so far, by stage.
            records: how many there are.
        """
        prior_epsilon, epsilon = self.shares(records)
        found = []
        if prior_epsilon is not None and "cluster prior" not in charged:
            found.append(Charge("", (), PrivacyLoss.response(positive_epsilon(prior_epsilon) / 2, 2) * 2, {}))
        parts = [step for step in self.steps() if step != "cluster prior"]
        splits = {charge.path[0][0] for step, charge in charged.items() if step in parts and charge.path}
        loss = PrivacyLoss.pure(epsilon) if len(parts) > 1 else PrivacyLoss.response(epsilon, self.domain.size)
        for place, step in enumerate(parts):
            if step not in charged:
                found.append(Charge("", ((min(splits, default="split"), place),) if parts[1:] else (), loss, {}))
        return tuple(found)

    def run(self, features: NDArray[np.float64], ids: Ids | None) -> str:
        """A name for the run: the same settings on the same features and ids find their stages again."""
        description = [self.label, *self.domain.names, str(self.epsilon), self.model, self.stages, self.prior]
        digest = hashlib.sha256(json.dumps(description).encode())
        digest.update(repr(features.shape).encode() + np.ascontiguousarray(features).tobytes())
        if ids is not None:
            texts = isinstance(ids, list)
            digest.update(json.dumps([self.id_column, texts, [len(each) for each in ids] if texts else []]).encode())
            digest.update(b"".join(ids) if isinstance(ids, list) else np.ascontiguousarray(ids).tobytes())
        return f"fit {digest.hexdigest()[:32]}"
