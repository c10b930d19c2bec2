"""Audit what a command wrote: certificate, files and ledger, the released values, and how much they show."""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp._version import __version__
from labeldp.audit import LowerBound, audit_outputs
from labeldp.audit.signing import check_signature
from labeldp.curator import DatasetLedger, LedgerFile, Recorded, RecordingCurator, copy_ledger
from labeldp.fit import (
    DESCRIPTION,
    ESTIMATOR,
    SUMMARY,
    Check,
    FilePersons,
    FitJob,
    FitSettings,
    FitSummary,
    budget_use,
    check_charges,
    check_summary,
    distinct_ids,
    file_digest,
    fit_file,
    read_certified,
    read_json,
    release_bags,
    release_file,
    statements,
    verify,
)
from labeldp.mechanisms import MECHANISMS, Domain, FiniteMechanism, MechanismEntry
from labeldp.online import OnlineRun, run_online
from labeldp.privacy import (
    Certificate,
    Charge,
    InputError,
    LabelDPError,
    Neighbors,
    PrivacyLoss,
    RandomnessKind,
    Trust,
    decimal,
    stored_fraction,
)
from labeldp.tables import (
    TableFile,
    codes_of,
    column_digest,
    domain_in_file,
    has_folder_certificate,
    open_parts,
    read_certificate,
    read_folder_certificate,
)

MOST_AUDITED = 200_000
"""Records of a release that a lower bound looks at: a sample of more shows hardly more."""

MOST_LABELS, LEAST_OUTPUTS = 6, 20
"""Labels between which a lower bound searches, the most frequent ones, and how many outputs each of them has."""

_SEED = 20_261_122
"""Of samples and halves, which may not depend on outputs."""

Progress = Callable[[str, float], None]

Attempt = Callable[..., Certificate]
"""Makes a release once more, given an output, a ledger and an account."""


@dataclass(frozen=True)
class RunAudit:
    """What an audit found of something that a command wrote.

    Its verdict is "fails" where something differs, "unverified" where something that is claimed could not be checked,
    and else "holds".

    Args:
        path: what was audited.
        kind: "fit", "release" or "online run".
        certificate: its certificate.
        delta: the delta at which it is read.
        digests: SHA-256 of each file, by its name.
        checks: what was checked, in order.
        not_checked: what is not claimed and was not checked, and why.
        bound: a lower bound of epsilon from the released values, or None.
        secret: whether raw labels were read: then all of this is as secret as they are.
        created, version: when, UTC, and by which labeldp.
    """

    path: str
    kind: str
    certificate: Certificate
    delta: Fraction
    digests: dict[str, str]
    checks: tuple[Check, ...]
    not_checked: tuple[str, ...]
    bound: LowerBound | None
    secret: bool
    created: str
    version: str

    @property
    def claim(self) -> float:
        """The epsilon that the certificate promises at its delta."""
        return self.certificate.epsilon(self.delta)

    @property
    def refuted(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.bound is not None and self.bound.refutes(self.claim)

    @property
    def verdict(self) -> str:
        """One of "holds", "fails" and "unverified"."""
        results = {check.holds for check in self.checks}
        if self.refuted or False in results:
            return "fails"
        return "unverified" if None in results else "holds"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        bound = None
        if self.bound is not None:
            bound = {
                "epsilon": self.bound.epsilon,
                "delta": self.bound.delta,
                "level": self.bound.level,
                "how": self.bound.how,
                "above_the_claim": self.refuted,
            }
        claim = self.claim
        return {
            "format": "labeldp audit 1",
            "path": self.path,
            "kind": self.kind,
            "verdict": self.verdict,
            "as_secret_as_the_labels": self.secret,
            "claim": {"epsilon": claim if claim < float("inf") else None, "delta": str(self.delta)},
            "checks": [{"holds": check.holds, "sentence": check.sentence} for check in self.checks],
            "not_checked": list(self.not_checked),
            "lower_bound": bound,
            "files": dict(self.digests),
            "certificate": self.certificate.to_json(),
            "created": self.created,
            "version": self.version,
        }


def audit_run(
    path: str,
    *,
    ledger: str | None = None,
    data: str | None = None,
    id_column: str | None = None,
    experts: tuple[str, ...] | None = None,
    init: str | None = None,
    test: str | None = None,
    settings: FitSettings | None = None,
    signature: str | None = None,
    signed_by: str | None = None,
    render: Callable[[FitSummary], str] | None = None,
    progress: Progress | None = None,
) -> RunAudit:
    """Audit what `fit`, `release` or `online run` wrote; nothing is charged, and nothing is written.

    A certificate is checked by the ledger, which has its own, or by the signature of somebody who is named. Values are
    checked by that signature, or made again: with ledger and data, on a copy of the ledger that is removed. What
    follows from that is as secret as the labels. What was checked by neither is unverified.

    Args:
        path: a directory that `fit` wrote, or a file or folder that `release` or `online run` wrote.
        ledger: the ledger file that was charged.
        data: the private file that it was made of.
        id_column: the record ids of a release that was written in place, or of weighted sums, which do not say so.
        experts: of an online run that chose between some columns, or in another order: which they were.
        init: of a fit that started from another model: its directory.
        test: of a fit that was measured on a public test file: that file.
        settings: of a fit, as its summary has them.
        signature: the signature; by default `path`.signature.
        signed_by: a public key in PEM form: of whom the signature must be.
        render: turns the summary of a fit into its report, such as `labeldp.report.render_report`.
        progress: called with what is being done, and a share.

    Raises:
        InputError: there is nothing of labeldp at the path, or a file cannot be used.
        LedgerError: the ledger cannot be used.
    """
    if data is not None and ledger is None:
        raise InputError("must be given with --data: the values are made again from its keys", argument="ledger")
    show = progress or (lambda text, share: None)
    show("files", 0.0)
    verdict = verify(path)
    certificate, kind = verdict.certificate, _kind(path, verdict.certificate)
    checks, missing = [Check(verdict.holds, verdict.sentence)], []
    signed = check_signature(path, signature=signature, signed_by=signed_by)
    if signed.holds is not None or ledger is None:
        checks.append(signed)
    if kind == "fit":
        checks += [_summary_check(path, render)]
    bound = None
    if ledger is None:
        checks.append(_times(certificate, signed.holds))
        missing.append("Without --ledger: whether the charges are in a ledger, and what else was released.")
    else:
        show("ledger", 0.1)
        found = _ledger_checks(certificate, ledger, kind == "fit")
        # What a fit adds to the certificate of its ledger is in its signature, or it is made again below.
        checks += [check for check in found if check.holds is not None or not (signed.holds or data)]
        checks.append(_times(certificate, found[0].holds is not False))
    if ledger is not None and data is None:
        words = "whether the released values are those that the ledger's keys give: --data FILE makes them again."
        if signed.holds:
            missing.append(f"Without --data: {words}")
        else:
            checks.append(Check(None, f"Unverified: {words}"))
    if ledger is not None and data is not None:
        show("values", 0.2)
        if not Path(data).exists():
            raise InputError(f"no such file or folder: {data}")
        again = _Again(path, kind, certificate, ledger, data, id_column, experts, init, test, settings, show)
        found, bound, why = again.audit()
        checks += found
        missing += why
    return RunAudit(
        str(path),
        kind,
        certificate,
        verdict.delta,
        _digests(path),
        tuple(checks),
        tuple(missing),
        bound,
        data is not None,
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        __version__,
    )


def _kind(path: str, certificate: Certificate) -> str:
    """Return which command wrote it."""
    if Path(path).is_dir() and not has_folder_certificate(path):
        return "fit"
    return "online run" if any("rounds" in charge.mechanism for charge in certificate.entries) else "release"


def _digests(path: str) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    place = Path(path)
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    found = {(each.relative_to(place).as_posix() if each != place else each.name): file_digest(each) for each in files}
    return {name: digest for name, digest in found.items() if digest is not None}


def _most_releases(charges: Iterable[Charge]) -> int:
    """Return the most releases that one label is in: parts of a split share no record, different splits may."""
    whole = 0
    splits: dict[str, dict[int, list[Charge]]] = {}
    for charge in charges:
        if charge.loss == PrivacyLoss.zero():
            continue  # a note, no release
        if not charge.path:
            whole += 1
        else:
            (split, part), rest = charge.path[0], charge.path[1:]
            splits.setdefault(split, {}).setdefault(part, []).append(replace(charge, path=rest))
    return whole + sum(max(map(_most_releases, parts.values())) for parts in splits.values())


def _times(certificate: Certificate, checked: bool | None) -> Check:
    """Say how often a label was released for this, by its own certificate, which was checked or was not."""
    most, count, holds = _most_releases(certificate.entries), len(certificate.entries), True if checked else None
    if most <= 1:
        parts = f", in {count} releases of disjoint parts" if count > 1 else ""
        return Check(holds, f"By its certificate each label was released once{parts}.")
    return Check(holds, f"By its certificate a label was in up to {most} releases; it charges all of them together.")


def _summary_check(path: str, render: Callable[[FitSummary], str] | None) -> Check:
    """Compare summary and report of a model with its certificate."""
    found = None if render is None else check_summary(path, render)
    return found or Check(None, f"Unverified: whether summary and report of {path} say what its certificate says.")


def _ledger_checks(certificate: Certificate, path: str, fit: bool) -> list[Check]:
    """Compare a certificate with its ledger, and say what else was released of its dataset."""
    found = [check_charges(certificate, path, fit=fit)]
    try:
        account = LedgerFile(path).dataset(certificate.dataset)
    except LabelDPError:
        return found  # which says that there is no such dataset
    charges, spent = account.charges, account.spent
    twice = [name for name, times in Counter(charge.id for charge in charges).items() if times > 1]
    found.append(
        Check(not twice, "The ledger has each charge once." if not twice else "A charge is TWICE in the ledger.")
    )
    budget, most = account.budget, _most_releases(charges)
    words = f"{len(charges)} release{'s' * (len(charges) != 1)}"
    inside = budget.admits(spent)
    # At delta > 0 no epsilon of what was spent so far is a promise.
    cost = "" if decimal(budget.delta, "delta") else f" they cost epsilon = {spent.epsilon():.6g},"
    found.append(
        Check(
            inside,
            f"{words} of {certificate.dataset!r} in all, up to {most} of one label;{cost} "
            f"{'within' if inside else 'ABOVE'} its budget ({budget}).",
        )
    )
    return found


class _Enough(BaseException):
    """All releases of a certificate were seen; no error, so that no learner takes it for one."""


@dataclass(frozen=True)
class _Again:
    """The values of a certificate, made again from data and keys."""

    path: str
    kind: str
    certificate: Certificate
    ledger: str
    data: str
    id_column: str | None
    experts: tuple[str, ...] | None
    init: str | None
    test: str | None
    settings: FitSettings | None
    show: Progress

    def audit(self) -> tuple[list[Check], LowerBound | None, list[str]]:
        """Return checks, a lower bound, and what was not checked."""
        kinds = {"fit": self._fit, "release": self._release, "online run": self._online}
        if self.certificate.randomness is not RandomnessKind.KEYED:
            kind = self.certificate.randomness.value
            return [Check(None, f"{_UNMADE}: their noise is no function of a key ({kind}).")], None, []
        with tempfile.TemporaryDirectory(prefix="labeldp-audit-") as folder:
            os.chmod(folder, 0o700)
            try:
                return kinds[self.kind](Path(folder))
            except _NotMade as why:
                return [Check(None, f"{_UNMADE}: {why}.")], None, []
            except InputError:
                raise
            except LabelDPError as error:
                return [Check(False, f"The values could NOT be made again from {self.data}: {error}")], None, []

    @property
    def _entry(self) -> tuple[Charge, Any]:
        """The only charge, and the ledger's entry of it."""
        if len(self.certificate.entries) != 1:
            raise _NotMade("it rests on several releases")
        charge = self.certificate.entries[0]
        account = LedgerFile(self.ledger).dataset(self.certificate.dataset)
        entries = [each for each in account.entries if each.certificate.entries[0].id == charge.id]
        if not entries or entries[0].certificate.entries != (charge,):
            raise _NotMade("the charge is not in the ledger as certified")
        return entries[0].certificate.entries[0], entries[0]

    def _account_of(self, entry: Any) -> dict[str, Any]:
        names = self.certificate.cohorts
        return {
            "dataset": self.certificate.dataset,
            "revision": entry.revision or None,
            **({"cohort": names[0]} if len(names) == 1 and self.kind == "release" else {}),
        }

    def _same(self, again: Path) -> Check:
        """Compare a file that was made again with the published one: all columns, since the digest covers one."""
        made, published = (open_parts(place).tables for place in (again, self.path))
        columns = made[0].columns
        same = all(table.columns == columns for table in published) and all(
            len({column_digest(_column(tables, name)) for tables in (made, published)}) == 1 for name in columns
        )
        words = "Made again from the data and the ledger's keys, "
        if same:
            return Check(True, f"{words}every released value is the same.")
        return Check(False, f"{words}released values are NOT the same.")

    def _release(self, folder: Path) -> tuple[list[Check], LowerBound | None, list[str]]:
        """Make a released file or folder again."""
        charge, entry = self._entry
        row = MECHANISMS.get(str(charge.mechanism.get("mechanism")))
        if row is None or not row.command:
            raise _NotMade("no mechanism of labeldp release has this name")
        in_folder = has_folder_certificate(self.path)
        content = read_folder_certificate(self.path) if in_folder else read_certificate(self.path)
        columns = content["columns"] if in_folder else list(open_parts(self.path).columns)
        if content["column"] not in columns:
            raise _NotMade("it has no column of the name that its certificate says")
        ending = "_sum" if row.on_bags else row.load().column_ending
        label, own = content["column"].removesuffix(ending), open_parts(self.data).tables[0].columns
        named = [name for name in columns if name != content["column"]]
        others = [name for name in own if name != label]
        ids: list[str | None] = [self.id_column] if self.id_column else [None, *self._distinct(others)]
        if row.on_bags:
            ids = [columns[0]] if not self.id_column and columns[1:2] == ["bag"] and columns[0] in own else ids
            attempts = self._attempts(self._bags, row, charge, label, others, ids)
        else:
            plain, whole = partial(self._labels, in_place=False), partial(self._labels, in_place=True)
            attempts = chain(
                self._attempts(plain, row, charge, label, others, [*named, None][:1] if len(named) < 2 else []),
                self._attempts(whole, row, charge, label, others, ids if len(columns) == len(own) else []),
            )
        check, out = self._first(folder, charge, entry, attempts)
        if not check.holds:
            return [check], None, []
        if row.on_bags:
            return [check], None, ["A lower bound: the sums of one release are one output."]
        domain = Domain.from_json(charge.mechanism["domain"])
        self.show("lower bound", 0.8)
        raw = np.concatenate(
            [
                codes_of(block, label, domain_in_file(domain))
                for table in open_parts(self.data).tables
                for block in table.blocks([label])
            ]
        )
        tables = open_parts(out).tables
        return [check], *_bounded(raw, _numbers(list(_column(tables, content["column"]))), domain)

    def _distinct(self, names: list[str]) -> Iterator[str]:
        """Yield the columns that may be record ids."""
        for name in names:
            with suppress(InputError):
                distinct_ids(open_parts(self.data).read([name]), name)
                yield name

    def _attempts(
        self,
        kind: Callable[..., Iterator[Attempt]],
        row: MechanismEntry,
        charge: Charge,
        label: str,
        others: list[str],
        ids: list[str | None],
    ) -> Iterator[Attempt]:
        """Yield the releases that this may be: it may not say by which column records, persons and bags are known."""
        for name in ids:
            yield from kind(row, charge, label, name, [other for other in others if other != name])

    def _labels(
        self, row: MechanismEntry, charge: Charge, label: str, ids: str | None, others: list[str], *, in_place: bool
    ) -> Iterator[Attempt]:
        """Yield releases of single labels, for each column whose persons they may be."""
        asked: dict[str, Any] = {
            "label": label,
            "domain": Domain.from_json(charge.mechanism["domain"]),
            "mechanism": row.command,
            "id_column": ids,
            "in_place": in_place,
            "progress": lambda text, share: self.show("values", 0.2 + 0.6 * share),
        }
        epsilon = stored_fraction(charge.mechanism["epsilon"])
        if self.certificate.neighbors is not Neighbors.ONE_PERSON:
            yield partial(release_file, self.data, epsilon=epsilon, **asked)
            return
        for person in others:
            with suppress(InputError):  # a column that names no persons
                most = FilePersons.of(open_parts(self.data), person, (label, ids)).most
                yield partial(release_file, self.data, epsilon=epsilon * most, person_column=person, **asked)

    def _bags(
        self, row: MechanismEntry, charge: Charge, label: str, ids: str | None, others: list[str]
    ) -> Iterator[Attempt]:
        """Yield releases of sums, for each way to make bags, and each column whose persons they may be.

        The charge has a digest of the bags, and of the persons: others are another charge.
        """
        own = charge.mechanism
        asked: dict[str, Any] = {
            "label": label,
            "domain": Domain.from_json(own["domain"]),
            "mechanism": row.command,
            "size": own["size"],
            "epsilon": stored_fraction(own["epsilon"]),
            "delta": stored_fraction(own.get("delta", 0)),
            "id_column": ids,
            **{name: own[name] for name in ("noisy", "weights", "rows") if name in own},
        }
        persons = others if self.certificate.neighbors is Neighbors.ONE_PERSON else (None,)
        for person, bags in product(persons, ("median", "random", *others)):
            if person is None or person != bags:
                yield partial(release_bags, self.data, bags=bags, person_column=person, **asked)

    def _online(self, folder: Path) -> tuple[list[Check], LowerBound | None, list[str]]:
        """Play an online run again."""
        charge, entry = self._entry
        plan = charge.mechanism["plan"]
        names = ("epsilon", "delta", "method", "neighbors", "loss_bits")
        asked = {name: plan[name] for name in names} | {"horizon": charge.mechanism["rounds"], "experts": self.experts}
        columns = len(self.experts or open_parts(self.data).columns)
        if columns != plan["experts"]:
            raise _NotMade(f"it chose between {plan['experts']} columns, not {columns}; --experts names them in order")
        attempts = (partial(run_online, self.data, OnlineRun(**asked, levels=levels)) for levels in (False, True))
        check, _ = self._first(folder, charge, entry, attempts)
        return [check], None, ["A lower bound: the decisions of one run are one output."]

    def _first(self, folder: Path, charge: Charge, entry: Any, attempts: Iterable[Attempt]) -> tuple[Check, Path]:
        """Make releases on copies of the ledger, without its values, until one is this charge; compare its values.

        Raises:
            InputError: what none of them could be asked for.
        """
        name = open_parts(self.path).tables[0].path.name
        refused: InputError | None = None
        asked = False
        for number, attempt in enumerate(attempts):
            ledger, out = folder / f"ledger{number}", folder / f"again{number}-{name}"
            copy_ledger(self.ledger, ledger, values=False)
            try:
                made = attempt(out=out, ledger=ledger, **self._account_of(entry))
                if made.entries == (charge,):
                    return self._same(out), out
                asked = True
            except InputError as error:
                refused = error
            except LabelDPError:  # of the ledger: what is asked for is not what was charged
                asked = True
            ledger.unlink()
            out.unlink(missing_ok=True)
        if refused is not None and not asked:
            raise refused
        why = "or a column that the result does not name, is not what was charged"
        return Check(False, f"The values could NOT be made again: {self.data}, {why}."), folder

    def _fit(self, folder: Path) -> tuple[list[Check], LowerBound | None, list[str]]:
        """Make the releases of a fit again, up to the last one; the model itself is not compared."""
        if self.settings is None:
            raise _NotMade("the options of the fit are not known, or its labels are on a server")
        if self.settings.init is None and self.init is not None:
            raise InputError("is not of this fit, which started from nothing", argument="init")
        if self.settings.init is not None and self.init is None:
            raise _NotMade("its training started from another network; --init names its directory")
        wanted = {charge.id for charge in self.certificate.entries if charge.loss != PrivacyLoss.zero()}
        passes = [self._releases(folder / name, wanted, values) for name, values in (("held", True), ("keys", False))]
        (stored, codes), (drawn, _) = passes
        if wanted - set(stored):
            return [Check(False, f"The values could NOT be made again: {self.data} gives other releases.")], None, []
        again = sorted(wanted & set(drawn))
        words = f"the {len(again)} release{'s have' if len(again) > 1 else ' has'}"
        same = all(np.array_equal(stored[name].release.value, drawn[name].release.value) for name in again)
        if not same:
            return (
                [Check(False, f"Drawn again from the ledger's keys, {words} NOT the values that were stored.")],
                None,
                [],
            )
        checks = []
        if again:
            sentence = f"Drawn again from the data and the ledger's keys, {words} the values that were stored."
            checks.append(Check(True, sentence))
        if len(again) < len(wanted):
            checks.append(
                Check(
                    None,
                    f"Unverified: {len(wanted) - len(again)} of {len(wanted)} releases are in the ledger and were not "
                    "drawn again: what they were asked for follows from a model, which learned otherwise here (other "
                    "versions, or another machine).",
                )
            )
        else:
            checks.append(self._learned(folder))
        self.show("lower bound", 0.9)
        plain = [each for each in stored.values() if _answers_alike(each)]
        if not plain:
            return checks, None, ["A lower bound: no release answers each record by one and the same law."]
        largest = max(plain, key=lambda each: len(each.rows))
        release = largest.release
        bound, why = _bounded(codes[largest.rows], np.asarray(release.value), release.mechanism.domain)
        return checks, bound, why

    def _learned(self, folder: Path) -> Check:
        """Run the whole fit again with the releases that are stored, and compare all that it writes."""
        assert self.settings is not None
        settings, bundle, made = replace(self.settings, init=self.init), Path(self.path), folder / "model"
        try:
            summary = fit_file(
                self.data,
                settings,
                ledger=str(folder / "held"),
                out=str(made),
                test=self.test,
                test_labels_are_public=self.test is not None,
            )
            stored = FitSummary.from_json(read_json(bundle / SUMMARY))
        except LabelDPError as error:
            return Check(None, f"{_UNMADE}: the fit does not run here as it did: {error}.")
        first, again = statements(self.certificate), statements(read_certified(made)[0])
        changed = [name for name in first if first[name] != again[name]]
        if changed:
            return Check(
                False, f"Learned again, the certificate is NOT the same: it states otherwise {', '.join(changed)}."
            )
        changed = [name for name in (DESCRIPTION, ESTIMATOR) if file_digest(bundle / name) != file_digest(made / name)]
        # How the command was typed, and what the ledger holds since, is not of this fit.
        typed = {name: getattr(stored, name) for name in ("command", "request", "file")}
        account = FitJob.read(self.data, settings, str(folder / "held"), str(made), self.test).account
        assert isinstance(account, DatasetLedger)
        ids = {charge.id for charge in self.certificate.entries}
        budgets = [budget_use(account, self.certificate, ids, later) for later in self._later(account, ids)]
        if stored != replace(summary, **typed, budget=stored.budget) or stored.budget not in budgets:
            changed.append(SUMMARY)
        if changed:
            return Check(
                None,
                f"Unverified: learned again, {' and '.join(changed)} came out otherwise: by other versions, on another "
                "machine, after a change of the budget, or somebody changed them.",
            )
        return Check(True, "Learned again from the data and these releases, the model and its summary are the same.")

    def _later(self, account: DatasetLedger, ids: set[str]) -> Iterator[set[str]]:
        """Yield the charges that came after a fit was written, for each time since its last charge."""
        charges = [charge.id for charge in account.charges]
        for end in range(max(charges.index(name) for name in ids) + 1, len(charges) + 1):
            yield set(charges[end:])

    def _releases(self, copy: Path, wanted: set[str], values: bool) -> tuple[dict[str, Recorded], NDArray[Any]]:
        """Learn once more on a copy of the ledger, until all wanted charges were seen."""
        assert self.settings is not None
        copy_ledger(self.ledger, copy, values=values)
        seen: dict[str, Recorded] = {}

        def told(release: Recorded) -> None:
            for charge in release.release.certificate.entries:  # its own, and those that it rests on, seen before
                seen.setdefault(charge.id, release)
            if wanted <= set(seen):
                raise _Enough

        try:
            job = FitJob.read(self.data, replace(self.settings, init=self.init), str(copy), str(copy) + " out", None)
        except InputError as error:
            raise _NotMade(f"this fit is refused today or of these data: {error}") from None
        curator = RecordingCurator(job.curator, told)
        with suppress(_Enough):
            job.fit(curator, rng=job.account.randomness)
        return seen, np.asarray(job.rows.codes)


_UNMADE = "Unverified: the values were not made again"


class _NotMade(Exception):
    """Why values are not made again."""


def _answers_alike(recorded: Recorded) -> bool:
    """Return whether each record was answered by itself, and by the same law."""
    mechanism = recorded.release.mechanism
    return isinstance(mechanism, FiniteMechanism) and mechanism.trust is Trust.LOCAL and mechanism.records is None


def _column(tables: Iterable[TableFile], name: str) -> Iterator[Any]:
    """Yield a column of a table of several files, by blocks."""
    return (block.column(0) for table in tables for block in table.blocks([name]))


def _numbers(blocks: list[Any]) -> NDArray[Any]:
    """Return a released column as an array: texts of bits become rows of bits."""
    values = np.concatenate([np.asarray(block.to_pylist()) for block in blocks])
    if (
        values.dtype.kind == "U"
        and set("".join(values[:1000])) <= {"0", "1"}
        and len({len(each) for each in values}) == 1
    ):
        width = len(values[0])
        return values.view("U1").reshape(len(values), -1)[:, :width].astype(np.int8) if width > 1 else values
    return values


def _bounded(codes: NDArray[Any], outputs: NDArray[Any], domain: Domain) -> tuple[LowerBound | None, list[str]]:
    """Return a lower bound from the answers to records of different labels, or why there is none."""
    places = np.arange(len(codes))
    if len(places) > MOST_AUDITED:
        places = np.random.default_rng(_SEED).choice(len(codes), MOST_AUDITED, replace=False)
    known, counts = np.unique(codes[places], return_counts=True)
    frequent = known[np.argsort(-counts, kind="stable")][:MOST_LABELS]
    chosen = [label for label in frequent.tolist() if int((codes[places] == label).sum()) >= LEAST_OUTPUTS]
    if len(chosen) < 2:
        return None, [f"A lower bound: fewer than two labels have {LEAST_OUTPUTS} records."]
    names = np.asarray(domain.decode(np.array(chosen))).tolist()
    found = {name: outputs[places[codes[places] == label]] for name, label in zip(names, chosen, strict=True)}
    return audit_outputs(found, seed=_SEED), []
