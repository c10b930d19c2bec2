"""Repeat a stored request on a copy of the ledger."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.audit.black_box import LowerBound, audit_outputs
from labeldp.curator import Recorded, copy_ledger, dataset_of, declared_domain
from labeldp.fit import (
    DESCRIPTION,
    ESTIMATOR,
    SUMMARY,
    FitSummary,
    Job,
    budget_use,
    prepare,
    read_certified,
    read_json,
    read_rows,
)
from labeldp.mechanisms import Domain, FiniteMechanism, load
from labeldp.privacy import (
    AccountLike,
    AccountState,
    Certificate,
    Charge,
    DomainError,
    InputError,
    LabelDPError,
    PrivacyLoss,
    RandomnessKind,
    Release,
    Request,
    Trust,
    UnreadableRows,
)
from labeldp.releases import Check, statements
from labeldp.tables import Table, as_text, codes_of, column_digest, file_digest, open_table, plain, read_certificate

MOST_AUDITED = 200_000
"""Records of a release that a lower bound looks at: a sample of more shows hardly more."""

MOST_LABELS, LEAST_OUTPUTS = 6, 20
"""Labels between which a lower bound searches, the most frequent ones, and how many outputs each of them has."""

_SEED = 20_261_122
"""Of samples and halves, which may not depend on outputs."""

NOT_MADE = "Unverified: the values were not recomputed"

Progress = Callable[[str, float], None]

Result = tuple[list[Check], LowerBound | None, list[str]]
"""Checks, a lower bound or None, and what was not checked, with the reason."""


class _Enough(BaseException):
    """All releases of a certificate were seen. It is not an `Exception`, so that no learner catches it."""


class _NotMade(Exception):
    """The reason why values are not computed again."""


@dataclass(frozen=True)
class Rerun:
    """The values of a certificate, computed again from data and keys.

    Args:
        path: the result.
        certificate: of the result.
        request: the request in the ledger; None if the ledger has none.
        ledger, data: the ledger file and the private data.
        init, test: of a fit: the model that it started from, and its public test file.
        progress: called with the name of the present step, and the finished share.
    """

    path: str
    certificate: Certificate
    request: Request | None
    ledger: str
    data: str
    init: str | None
    test: str | None
    progress: Progress

    def run(self) -> Result:
        """Compute the values again, and return the results of the comparison."""
        if self.certificate.randomness is not RandomnessKind.KEYED:
            kind = self.certificate.randomness.value
            return [Check(None, f"{NOT_MADE}: their noise is no function of a key ({kind}).")], None, []
        with tempfile.TemporaryDirectory(prefix="labeldp-audit-") as folder:
            os.chmod(folder, 0o700)
            try:
                if self.request is None:
                    raise _NotMade("the ledger has no request of this release")
                if self.request.kind == "totals":
                    return self._totals(self.request, Path(folder))
                if self.request.kind == "fit":
                    return self._fit(self.request, Path(folder))
                return self._file(self.request, Path(folder))
            except _NotMade as why:
                return [Check(None, f"{NOT_MADE}: {why}.")], None, []
            except (DomainError, UnreadableRows) as error:
                refused = error
            except InputError:
                raise
            except LabelDPError as error:
                return [Check(False, f"The values could NOT be recomputed from {self.data}: {error}")], None, []
        self._count(refused)

    def _count(self, refused: InputError) -> NoReturn:
        """Count a rejection by labels in the ledger itself, not only in the copy, and raise it."""
        assert self.request is not None
        with dataset_of(self.request, self.ledger).comparing(declared_domain(self.request)):
            raise refused

    def _ask(self, request: Request, ledger: Path, **more: Any) -> Any:
        """Return what the function that answers a request returns now."""
        try:
            return load(request.answered_by)(request, self.data, ledger=ledger, **more)
        except InputError as error:
            if error.arguments != ("request",):
                raise
            raise _NotMade(str(error)) from None

    def _file(self, request: Request, folder: Path) -> Result:
        """Make a file again on a copy of the ledger without values, and compare charges and all columns."""
        ledger, out = folder / "ledger", folder / f"again-{open_table(self.path).parts[0].path.name}"
        copy_ledger(self.ledger, ledger, values=False)
        again = self._ask(
            request, ledger, out=out, progress=lambda text, share: self.progress("values", 0.2 + 0.6 * share)
        )
        certificate = again if isinstance(again, Certificate) else again.certificate
        if certificate.entries != self.certificate.entries:
            return [Check(False, f"The values could NOT be recomputed: {self.data} is not what was charged.")], None, []
        check = self._same(out, request.source.ids)
        if not check.holds:
            return [check], None, []
        if request.kind != "release":
            outputs = "decisions of one run" if request.kind == "online" else "sums of one release"
            return [check], None, [f"A lower bound: the {outputs} are one output."]
        self.progress("lower bound", 0.8)
        domain, label = Domain.from_json(request.domain), request.source.label
        codes = [
            codes_of(block, label, domain.in_file())
            for table in open_table(self.data).parts
            for block in table.blocks([label])
        ]
        values = _numbers(list(_column(open_table(out).parts, read_certificate(out)["column"])))
        return [check], *_bounded(np.concatenate(codes), values, domain)

    def _totals(self, request: Request, folder: Path) -> Result:
        """Ask for totals again, with the stored value and without it, and compare charges and values."""
        releases: list[Release[Any]] = []
        for name, values in (("held", True), ("keys", False)):
            copy_ledger(self.ledger, folder / name, values=values)
            releases.append(self._ask(request, folder / name))
        stored, drawn = releases
        if any(release.certificate.entries != self.certificate.entries for release in releases):
            return [Check(False, f"The values could NOT be recomputed: {self.data} is not what was charged.")], None, []
        same = joblib.hash(stored.value) == joblib.hash(drawn.value)
        words = "Recomputed from the data and the ledger's keys, the release "
        check = Check(same, f"{words}has {'' if same else 'NOT '}the value that was stored.")
        return [check], None, ["A lower bound: the values of one release are one output."]

    def _same(self, again: Path, ids: str) -> Check:
        """Compare a file that was recomputed with the published one: all columns, since the digest covers one.

        What an engine wrote is in the order of the record ids, and a file in the order of its source.
        """
        remade, published = open_table(again).parts, open_table(self.path).parts
        columns, remade_columns = published[0].columns, remade[0].columns
        same = all(part.columns == columns for part in published) and set(columns) <= set(remade_columns)
        if same and not (
            columns == remade_columns and _alike(columns, partial(_column, remade), partial(_column, published))
        ):
            same = ids in columns and _alike(columns, _by_id(remade, ids, columns), _by_id(published, ids, columns))
        words = "Recomputed from the data and the ledger's keys, "
        if same:
            return Check(True, f"{words}every released value is the same.")
        return Check(False, f"{words}released values are NOT the same.")

    def _fit(self, request: Request, folder: Path) -> Result:
        """Make the releases of a fit again, up to the last one; then learn once more."""
        if request.options.get("server"):
            raise _NotMade("its labels are on a server")
        if "init" not in request.files and self.init is not None:
            raise InputError("is not of this fit, which started from nothing", argument="init")
        if "init" in request.files and self.init is None:
            raise _NotMade("its training started from another network; --init names its directory")
        wanted = {charge.id for charge in self.certificate.entries if charge.loss != PrivacyLoss.zero()}
        (stored, job), (drawn, _) = (
            self._releases(request, folder / name, wanted, values) for name, values in (("held", True), ("keys", False))
        )
        if wanted - set(stored):
            return [Check(False, f"The values could NOT be recomputed: {self.data} gives other releases.")], None, []
        again = sorted(wanted & set(drawn))
        words = f"the {len(again)} release{'s have' if len(again) > 1 else ' has'}"
        if not all(np.array_equal(stored[name].release.value, drawn[name].release.value) for name in again):
            return (
                [
                    Check(
                        False,
                        f"Recomputed from the data and the ledger's keys, {words} NOT the values that were stored.",
                    )
                ],
                None,
                [],
            )
        checks = []
        if again:
            sentence = f"Recomputed from the data and the ledger's keys, {words} the values that were stored."
            checks.append(Check(True, sentence))
        if len(again) < len(wanted):
            checks.append(
                Check(
                    None,
                    f"Unverified: {len(wanted) - len(again)} of {len(wanted)} releases are in the ledger and were not "
                    "recomputed: their requests follow from a model, which learned otherwise here (other "
                    "versions, or another machine).",
                )
            )
        elif "test" in request.files and self.test is None:
            checks.append(Check(None, f"{NOT_MADE}: the fit had a public test file; --test names it."))
        else:
            checks.append(self._learned(request, job.account, folder))
        self.progress("lower bound", 0.9)
        answers = [release for release in stored.values() if _answers_alike(release)]
        if not answers:
            return checks, None, ["A lower bound: no release answers each record by one and the same law."]
        largest = max(answers, key=lambda release: len(release.rows))
        release, codes = largest.release, job.rows.codes(job.settings.domain)
        return checks, *_bounded(codes[largest.rows], np.asarray(release.value), release.mechanism.domain)

    def _learned(self, request: Request, account: AccountLike, folder: Path) -> Check:
        """Run the whole fit again with the releases that are stored, and compare all that it writes."""
        bundle, again = Path(self.path), folder / "model"
        try:
            stored = FitSummary.from_json(read_json(bundle / SUMMARY))
            summary = load(request.answered_by)(
                request,
                self.data,
                ledger=str(folder / "held"),
                out=str(again),
                init=self.init,
                test=self.test,
                test_labels_are_public=self.test is not None,
                diagnostics=stored.curve is not None or bool(stored.importance),
            )
        except LabelDPError as error:
            return Check(None, f"{NOT_MADE}: the fit does not run here as it did: {error}.")
        stated, restated = statements(self.certificate), statements(read_certified(again)[0])
        changed = [name for name in stated if stated[name] != restated[name]]
        if changed:
            return Check(
                False, f"Learned again, the certificate is NOT the same: it states otherwise {', '.join(changed)}."
            )
        changed = [name for name in (DESCRIPTION, ESTIMATOR) if file_digest(bundle / name) != file_digest(again / name)]
        # Names of files, and charges after this fit, may differ.
        typed = {name: getattr(stored, name) for name in ("command", "certificate_digest", "file")}
        ids = {charge.id for charge in self.certificate.entries}
        state = account.read()
        budgets = [budget_use(state, self.certificate, later) for later in _later(state, ids)]
        if stored != replace(summary, **typed, budget=stored.budget) or stored.budget not in budgets:
            changed.append(SUMMARY)
        if changed:
            return Check(
                None,
                f"Unverified: learned again, {' and '.join(changed)} came out otherwise: by other versions, on another "
                "machine, after a change of the budget, or somebody changed them.",
            )
        return Check(True, "Learned again from the data and these releases, the model and its summary are the same.")

    def _releases(
        self, request: Request, copy: Path, wanted: set[str], values: bool
    ) -> tuple[dict[str, Recorded], Job]:
        """Learn once more on a copy of the ledger, until all wanted charges were seen."""
        copy_ledger(self.ledger, copy, values=values)
        seen: dict[str, Recorded] = {}

        def record(release: Recorded) -> None:
            for charge in release.release.certificate.entries:  # its own, and those that it rests on, seen before
                seen.setdefault(charge.id, release)
            if wanted <= set(seen):
                raise _Enough

        try:
            rows, _ = read_rows(request, self.data, None)
            job = prepare(request, rows, str(copy), init=self.init)
        except UnreadableRows:
            raise
        except InputError as error:
            raise _NotMade(f"this fit is refused today or of these data: {error}") from None
        with suppress(_Enough), job.curator.subscribe(record):
            job.fit()
        return seen, job


def _later(account: AccountState, ids: set[str]) -> Iterator[tuple[Charge, ...]]:
    """Yield the charges since a fit was written, for each state of the ledger in which it may have been written."""
    charges = account.charges
    last = max(index for index, charge in enumerate(charges) if charge.id in ids)
    for end in range(last + 1, len(charges) + 1):
        yield charges[end:]


def _answers_alike(recorded: Recorded) -> bool:
    """Return whether each record was randomized by itself, and by the same law."""
    mechanism = recorded.release.mechanism
    return isinstance(mechanism, FiniteMechanism) and mechanism.trust is Trust.LOCAL and mechanism.records is None


def _column(tables: Iterable[Table], name: str) -> Iterator[Any]:
    """Yield a column of a table of several files, by blocks."""
    return (block.column(0) for table in tables for block in table.blocks([name]))


def _alike(columns: Iterable[str], *tables: Callable[[str], Iterable[Any]]) -> bool:
    """Return whether tables, which give the blocks of a column, have the same values in some columns."""
    return all(len({column_digest(table(name)) for table in tables}) == 1 for name in columns)


def _by_id(parts: Iterable[Table], ids: str, columns: Sequence[str]) -> Callable[[str], Iterable[Any]]:
    """Return what gives the blocks of a column by ids in order, as texts: one file has numbers, another texts."""
    table = pa.concat_tables([part.read(columns) for part in parts])
    texts = as_text(plain(table.column(ids).combine_chunks()), ids)
    ordered = table.take(pc.sort_indices(texts))
    return lambda name: ordered.column(name).chunks


def _numbers(blocks: list[Any]) -> NDArray[Any]:
    """Return a released column as an array: texts of bits become rows of bits."""
    values = np.concatenate([np.asarray(block.to_pylist()) for block in blocks])
    if (
        values.dtype.kind == "U"
        and set("".join(values[:1000])) <= {"0", "1"}
        and len({len(value) for value in values}) == 1
    ):
        width = len(values[0])
        return values.view("U1").reshape(len(values), -1)[:, :width].astype(np.int8) if width > 1 else values
    return values


def _bounded(codes: NDArray[Any], outputs: NDArray[Any], domain: Domain) -> tuple[LowerBound | None, list[str]]:
    """Return a lower bound from noisy labels of records with different labels, or the reason why there is none."""
    places = np.arange(len(codes))
    if len(places) > MOST_AUDITED:
        places = np.random.default_rng(_SEED).choice(len(codes), MOST_AUDITED, replace=False)
    labels, counts = np.unique(codes[places], return_counts=True)
    frequent = labels[np.argsort(-counts, kind="stable")][:MOST_LABELS]
    chosen = [label for label in frequent.tolist() if int((codes[places] == label).sum()) >= LEAST_OUTPUTS]
    if len(chosen) < 2:
        return None, [f"A lower bound: fewer than two labels have {LEAST_OUTPUTS} records."]
    names = np.asarray(domain.decode(np.array(chosen))).tolist()
    samples = {name: outputs[places[codes[places] == label]] for name, label in zip(names, chosen, strict=True)}
    return audit_outputs(samples, seed=_SEED), []
