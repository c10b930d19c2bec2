"""From a file with a private label column to a model with its certificate and its report."""

import hashlib
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.learners import Model, cluster_prior, default_clusters, default_epsilon, fit_multistage
from labeldp.mechanisms import Classes
from labeldp.privacy import (
    Budget,
    Charge,
    InputError,
    PrivacyLoss,
    Release,
    all_digits,
    check,
    positive_epsilon,
    shortest_float,
)
from labeldp.tables import TableEncoder, TableFile, open_table, whole_directory
from labeldp.workflows.bundle import CERTIFICATE, CERTIFIED, REPORT, SUMMARY, Bundle, certify, write_json, write_text
from labeldp.workflows.classifiers import classifiers_of, indicators
from labeldp.workflows.curator import Curator
from labeldp.workflows.labels import codes_of, domain_in_file
from labeldp.workflows.ledger_file import DatasetLedger, LedgerFile
from labeldp.workflows.settings import classes_of, epsilon_of
from labeldp.workflows.summarize import Job, PublicRows, summarize
from labeldp.workflows.summary import FitSummary, Stage
from labeldp.workflows.watched import WatchedCurator

Progress = Callable[[str, float], None]
Render = Callable[[FitSummary], str]
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

    def cost(self, prior_epsilon: float | None, epsilon: float) -> PrivacyLoss:
        """What the whole fit can come to."""
        if prior_epsilon is None and self.stages == 1:
            return PrivacyLoss.response(epsilon, self.domain.size)
        labels = PrivacyLoss.pure(epsilon)
        return (
            labels
            if prior_epsilon is None
            else labels + PrivacyLoss.response(positive_epsilon(prior_epsilon) / 2, 2) * 2
        )

    def run(self, features: NDArray[np.float64]) -> str:
        """A name for the run: the same settings on the same features find their stages again."""
        description = [self.label, *self.domain.names, str(self.epsilon), self.model, self.stages, self.prior]
        digest = hashlib.sha256(json.dumps(description).encode())
        digest.update(repr(features.shape).encode() + np.ascontiguousarray(features).tobytes())
        return f"fit {digest.hexdigest()[:32]}"


def fit_file(
    data: str,
    settings: FitSettings,
    *,
    ledger: str,
    out: str,
    test: str | None = None,
    render: Render | None = None,
    note: Callable[[str], None] | None = None,
    progress: Progress | None = None,
) -> FitSummary:
    """Learn a classifier from a file, and write model, certificate and report into a new directory.

    Everything is read and checked before the first label is used. The same fit again costs nothing and
    finishes what was interrupted: the released labels are in the ledger.

    Args:
        data: CSV, CSV.gz or Parquet.
        settings: what to do.
        ledger: the ledger file to charge; made if it is not there.
        out: a directory that does not exist, or is empty.
        test: a file with the same columns whose labels are public, to measure the model on.
        render: turns the summary into the report, such as `labeldp.report.render_report`; without it none is written.
        note: called with a sentence that the user should read.
        progress: called with what is being done and the share of the work that is done.

    Guarantee: what is refused charges nothing, and the directory is whole or absent.

    Raises:
        InputError: a column, a label, the test file or the directory is not as it should be.
        BudgetExceeded: the ledger does not allow it; nothing was charged.
        LedgerError: the ledger cannot be used, or the labels changed.
    """
    show = progress or (lambda text, share: None)
    show("reading", 0.0)
    with whole_directory(out, (*CERTIFIED, CERTIFICATE)) as folder:
        encoder, features, codes = _read(open_table(data), settings)
        public = None if test is None else _public_rows(test, settings, encoder)
        account = LedgerFile(ledger).dataset(
            settings.dataset, revision=settings.revision, budget=Budget(settings.epsilon, settings.delta)
        )
        prior_epsilon, epsilon = settings.shares(len(codes))
        run = settings.run(features)
        _require_budget(account, settings, run, settings.cost(prior_epsilon, epsilon))
        if account.is_new and note:
            note(
                f"{settings.dataset!r} is new in {ledger}: its whole budget is the cost of this fit ({account.budget})"
            )
        labels = settings.domain.decode(codes)
        stages: list[Stage] = []
        curator = WatchedCurator(Curator(labels, domain=settings.domain, ledger=account, run=run), stages.append)
        show("learning", 0.1)
        release = _learn(curator, features, encoder, settings, account, prior_epsilon, epsilon)
        show("evaluating", 0.6)
        command = settings.command(data, ledger, out, test)
        job = Job(settings, Path(data).name, command, encoder, features, account, tuple(stages))
        summary = summarize(job, release, public, show)
        _write(folder, release, encoder, summary, render)
    return summary


def _read(table: TableFile, settings: FitSettings) -> tuple[TableEncoder, NDArray[np.float64], NDArray[Any]]:
    """Features as a matrix, and the codes of the private labels."""
    table.require(settings.label, "--label")
    columns = settings.features or tuple(name for name in table.columns if name != settings.label)
    if settings.label in columns:
        raise InputError("--features must not hold the label column")
    for name in columns:
        table.require(name, "--features")
    if not columns:
        raise InputError(f"{table.path} must have feature columns beside the label")
    content = table.read([*columns, settings.label])
    codes = [
        codes_of(batch, settings.label, settings.domain) for batch in content.select([settings.label]).to_batches()
    ]
    features = content.select(list(columns))
    encoder = TableEncoder.fit(features)
    return encoder, encoder.transform(features), np.concatenate(codes)


def _public_rows(path: str, settings: FitSettings, encoder: TableEncoder) -> PublicRows:
    """A test file: its labels are public, and never trained on."""
    table = open_table(path)
    columns = [column.name for column in encoder.columns]
    for name in [*columns, settings.label]:
        table.require(name, "--test")
    content: pa.Table = table.read([*columns, settings.label])
    codes = [
        codes_of(batch, settings.label, settings.domain) for batch in content.select([settings.label]).to_batches()
    ]
    return PublicRows(Path(path).name, encoder.transform(content.select(columns)), np.concatenate(codes))


def _require_budget(account: DatasetLedger, settings: FitSettings, run: str, cost: PrivacyLoss) -> None:
    """Refuse a fit whose later stages the budget would not admit, before the first of them is charged."""
    if not any((entry.step or "").startswith(run) for entry in account.entries):
        check(account.budget, list(account.charges), Charge("", (), cost, {}), settings.dataset)


def _learn(
    curator: WatchedCurator,
    features: NDArray[np.float64],
    encoder: TableEncoder,
    settings: FitSettings,
    account: DatasetLedger,
    prior_epsilon: float | None,
    epsilon: float,
) -> Release[Model]:
    """The releases and the training."""
    rng, prior = account.randomness, None
    if prior_epsilon is not None:
        prior = cluster_prior(indicators(features, encoder.categorical), curator, epsilon=prior_epsilon, rng=rng)
    classifiers = classifiers_of(settings.model, features, encoder.categorical, settings.domain.size)
    return fit_multistage(
        features, curator, classifier=classifiers, epsilon=epsilon, stages=settings.stages, prior=prior, rng=rng
    )


def _write(
    folder: Path, release: Release[Model], encoder: TableEncoder, summary: FitSummary, render: Render | None
) -> None:
    """The model, the report and the certificate that covers them."""
    Bundle(release.value, encoder).write(folder)
    write_json(folder / SUMMARY, summary.to_json())
    if render is not None:
        write_text(folder / REPORT, render(summary))
    certify(folder, release.certificate)
