"""The vault: the one process that opens labels, ledgers and keys. It enforces policy and budget for the front."""

import hashlib
import os
import signal
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar, final

import numpy as np
import pyarrow as pa

from labeldp._version import __version__
from labeldp.accounting import PROMISE
from labeldp.curator import Curator, LedgerFile, counting_unreadable
from labeldp.mechanisms import Domain, LabelSource, Mechanism, restore
from labeldp.privacy import (
    BudgetExceeded,
    Certificate,
    InputError,
    LabelDPError,
    LedgerError,
    Public,
    Release,
    SingleProcess,
    decimal,
    even_if_refused,
    float_above,
    gather,
    rounded_up_text,
)
from labeldp.serve.config import NO_TOKEN, Analyst, Config, DatasetConfig, analyst_of
from labeldp.serve.isolation import NotIsolated, isolate, limit_memory
from labeldp.serve.log import Log, LogError
from labeldp.serve.wire import (
    CALLS,
    MAX_REASON,
    decoded,
    encoded,
    order_digest,
    packed,
    packed_rows,
    read_description,
    receive,
    send,
    text_of,
    unpacked,
)
from labeldp.tables import codes_of, open_table, recognize, record_ids

MAX_PARTS = 1024
"""The most parts of a split."""

MAX_SPLITS = 4

MAX_STEPS, MAX_MECHANISMS = 256, 16
"""The most steps whose budget is asked for at once, and the most mechanisms of them: composing these takes a second."""

PAGE = 8 << 20
"""About so many bytes of features are in one answer."""

HELD = 32
"""The most curators of runs and parts in the cache."""

Kept = TypeVar("Kept")

Answer = tuple[int, dict[str, Any]]
"""A status of HTTP, and values of JSON."""

RETRY: Answer = (503, {"error": "retry", "message": "try again: the same request is answered once, and charged once"})
"""The only error after admission: a reason would be a function of labels."""


def with_numbers(features: pa.Table) -> pa.Table:
    """Return public columns with those of texts that are numbers, as in a CSV file, as numbers."""
    for i, name in enumerate(features.column_names):
        column = features.column(i)
        encoder = recognize(name, column.combine_chunks()) if pa.types.is_string(column.type) else None
        if encoder is not None and encoder.kind == "number":
            features = features.set_column(i, name, pa.array(encoder.encode(column), from_pandas=True))
    return features


class _Refused(Exception):
    """The refusal of a request, with a status; no label was read."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.answer: Answer = (status, {"error": kind, "message": message})


@final
class _Labels(LabelSource):
    """The labels of a file, which are encoded once."""

    def __init__(self, batch: Any, column: str) -> None:
        self._batch, self._column = batch, column
        self._codes: Any = None

    def codes(self, domain: Domain) -> Any:
        """Return the codes of the labels."""
        if self._codes is None:
            self._codes = codes_of(self._batch, self._column, domain)
        return self._codes


@final
class HeldDataset:
    """The labels of one dataset, and its ledger.

    Raises:
        LabelDPError: labels outside of the domain, others than were released before, or a ledger with another budget.
    """

    def __init__(self, config: DatasetConfig) -> None:
        self.config = config
        self._file = LedgerFile(config.ledger)
        self._file.add(config.name, config.budget, config.domain.in_file())
        shares = {analyst: decimal(share, "shares") for analyst, share in config.shares.items()}
        self._file.reserve(config.name, shares)
        table = open_table(config.labels)
        columns = [table.require(config.label, "label")]
        if config.id is not None:
            columns.append(table.require(config.id, "id"))
        columns += [table.require(name, "features") for name in config.features]
        with counting_unreadable(lambda: self._file.dataset(config.name), config.domain.in_file()):
            rows = table.read(columns).combine_chunks()
        self.features = with_numbers(rows.select(config.features))
        [batch] = rows.to_batches() or [None]
        if batch is None:
            raise InputError("must hold at least one record", argument="labels")
        self.domain = config.domain.in_file()
        self.ids = None if config.id is None else record_ids(batch, config.id)
        self.order = None if config.id is None else order_digest(batch.column(config.id).to_pylist())
        self._labels = _Labels(batch, config.label)
        owner = Curator(self._labels, domain=self.domain, ledger=self._file.dataset(config.name), ids=self.ids)
        owner.check_labels()
        self.records = owner.records
        self._curators: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._certificates: dict[str, dict[str, Certificate]] = {}

    @property
    def charges(self) -> dict[str, str]:
        """The id of every charge in the ledger, with its analyst."""
        return self._file.dataset(self.config.name).state.charged_to

    def ledger(self, analyst: str) -> Any:
        """Return the ledger as it charges an analyst."""
        return self._file.dataset(self.config.name, analyst=analyst)

    def curator(self, analyst: str, run: str | None, splits: list[tuple[Any, int, str]]) -> Curator:
        """Return the curator of a part of the records, for an analyst."""
        curator: Curator = self._kept(
            (analyst, run),
            lambda: Curator(self._labels, domain=self.domain, ledger=self.ledger(analyst), ids=self.ids, run=run),
        )
        key: tuple[Any, ...] = (analyst, run)
        for parts, part, why in splits:
            key = (*key, hashlib.sha256(parts.astype("<i8").tobytes()).digest(), why)
            curators = self._kept(key, partial(curator.split, Public(parts, why=why)))
            if not 0 <= part < len(curators):
                raise InputError(f"must be from 0 to {len(curators) - 1}", argument="part")
            curator, key = curators[part], (*key, part)
        return curator

    def certificate(self, analyst: str, charge: str) -> Certificate:
        """Return the certificate of a release to an analyst; raise InputError if there is none."""
        certificates = self._certificates.setdefault(analyst, {})
        if charge not in certificates:
            for entry in self.ledger(analyst).state.own_entries:
                certificates.setdefault(entry.certificate.entries[0].id, entry.certificate)
        if charge not in certificates:
            raise InputError("is unknown: it is not a charge of this analyst on this server", argument="charge")
        return certificates[charge]

    def keep_certificate(self, analyst: str, certificate: Certificate) -> None:
        """Remember the certificate of a release."""
        self._certificates.setdefault(analyst, {})[certificate.entries[0].id] = certificate

    def _kept(self, key: tuple[Any, ...], make: Callable[[], Kept]) -> Kept:
        if key in self._curators:
            self._curators.move_to_end(key)
        else:
            self._curators[key] = make()
            if len(self._curators) > HELD:
                self._curators.popitem(last=False)
        value: Kept = self._curators[key]
        return value

    @even_if_refused
    def __repr__(self) -> str:
        return f"HeldDataset({self.config.name!r})"


@final
class Vault(SingleProcess):
    """Answers requests of analysts. It holds all private data and makes all decisions.

    Guarantee (charged_first, no_label): labels leave only through a mechanism that the policy allows. Before that, the
        release is charged to the share of the analyst and logged. Refusals depend on no label and on no release of
        another analyst.

    Raises:
        LabelDPError: labels, a ledger or the log are not as they should be; nothing is answered.
    """

    _why_no_copy = "a vault cannot be copied or pickled: it holds the labels"
    _why_no_fork = "a vault belongs to the process that made it: a fork would write the same log"

    def __init__(self, config: Config) -> None:
        self._claim_process()
        self._config = config
        self.log = Log(config.state)
        self._datasets: dict[str, HeldDataset] = {}
        self._size = 0
        self.late = 0
        try:
            self._datasets = {name: HeldDataset(dataset) for name, dataset in config.datasets.items()}
            self._reconcile()
            self.log.append({"what": "start", "version": __version__, "datasets": sorted(self._datasets)})
        except BaseException:
            self.log.close()
            raise

    def _reconcile(self) -> None:
        """Compare the ledgers with the log, and log the charges that a crash kept out of the log.

        Raises:
            LedgerError: a ledger lacks a charge.
        """
        for dataset in self._datasets:
            for charge, analyst in self._compared(dataset).items():
                if analyst and charge not in self.log.charges(dataset):
                    self.log.append({"what": "recovered", "who": analyst, "dataset": dataset, "charge": charge})

    def _compared(self, dataset: str) -> dict[str, str]:
        """Return the charges of a ledger, after comparing them with the log."""
        charges = self._datasets[dataset].charges
        if not self.log.charges(dataset) <= charges.keys():
            raise LogError(
                f"the ledger of {dataset!r} lacks a charge that the log has: it is an older copy. "
                "Bring back the newest one"
            )
        return charges

    def answer(self, head: Mapping[str, Any], body: bytes) -> Answer:
        """Answer a request.

        Args:
            head: the name of the call, and the token.
            body: the request as JSON.

        Raises:
            LogError: the log cannot be written, or a ledger lacks a charge of it; the vault ends.
        """
        try:
            self.check_process()
            analyst = self._analyst(head.get("token"))
            call = _CALLS[str(head.get("call"))]
            self._size = len(body)
            return call(self, analyst, decoded(body) if body else {})
        except _Refused as error:
            return error.answer
        except BudgetExceeded as error:
            return 403, {"error": "budget", "message": str(error)}
        except InputError as error:
            return 400, {"error": "input", "message": str(error)}
        except LogError:
            raise  # what is not logged is not answered: the next start writes it down, or says what is wrong
        except Exception:  # whatever it was, nobody is told: it may hold a label
            return RETRY

    def _analyst(self, token: Any) -> Analyst:
        analyst = analyst_of(token if isinstance(token, str) else "", self._config.analysts)
        if analyst is None:
            raise _Refused(401, "token", NO_TOKEN)
        return analyst

    def datasets(self, analyst: Analyst, content: dict[str, Any]) -> Answer:
        """Answer which datasets this analyst has a share of, and what is public of them."""
        return 200, {
            "analyst": analyst.name,
            "datasets": [self._described(dataset, analyst) for dataset in self._of(analyst).values()],
        }

    def budget(self, analyst: Analyst, content: dict[str, Any]) -> Answer:
        """Answer how much of the analyst's share is used up."""
        dataset = self._dataset(analyst, content)
        ledger = dataset.ledger(analyst.name)
        used: Fraction = ledger.state.used()
        return 200, {
            **self._described(dataset, analyst),
            "used": str(used),
            "words": f"{rounded_up_text(100 * float_above(used), 4)} % of your share is used up. {PROMISE}",
        }

    def features(self, analyst: Analyst, content: dict[str, Any]) -> Answer:
        """Return public columns next to the labels, a page of rows from one on."""
        dataset, start = self._dataset(analyst, content), content.get("start", 0)
        table, records = dataset.features, dataset.records
        if not dataset.config.features:
            raise InputError("has no features on this server: they are with you", argument="dataset")
        if type(start) is not int or not 0 <= start < records:
            raise InputError(f"must be from 0 to {records - 1}", argument="start")
        page = max(1, PAGE * records // max(1, table.nbytes))
        return 200, {"records": records, "start": start, "arrow": packed_rows(table.slice(start, page))}

    def require(self, analyst: Analyst, content: dict[str, Any]) -> Answer:
        """Answer whether the analyst's share admits some steps together; nothing is charged."""
        self._curator(analyst, content).require(self._steps(analyst, content))
        return 200, {"admitted": True}

    def released(self, analyst: Analyst, content: dict[str, Any]) -> Answer:
        """Answer which steps have a stored release."""
        curator = self._curator(analyst, content)
        steps = self._steps(analyst, content)
        return 200, {
            "released": {step: curator.has_released(mechanism, step=step) for step, mechanism in steps.items()}
        }

    def certificate(self, analyst: Analyst, content: dict[str, Any]) -> Answer:
        """Answer the certificate of a release to the same analyst."""
        dataset = self._dataset(analyst, content)
        return 200, {"certificate": dataset.certificate(analyst.name, text_of(content, "charge")).to_json()}

    def release(self, analyst: Analyst, content: dict[str, Any]) -> Answer:
        """Release by a mechanism; the same request again is the same answer."""
        began = time.monotonic()
        dataset, curator = self._dataset(analyst, content), self._curator(analyst, content)

        mechanism = _mechanism(dataset, analyst, content.get("mechanism"))
        if type(mechanism).__name__ not in dataset.config.mechanisms:
            raise _Refused(403, "policy", f"the policy of this dataset does not allow {type(mechanism).__name__}")
        mechanism.check_records(curator.records)
        reason, step = text_of(content, "reason", MAX_REASON, ""), text_of(content, "step", default="") or None
        cells = curator.records + self._size // 8
        try:
            self._compared(dataset.config.name)  # it may have been replaced meanwhile
            return self._released(analyst, dataset, curator, mechanism, step, reason)
        finally:
            self._wait(began, cells)

    def _released(
        self, analyst: Analyst, dataset: HeldDataset, curator: Curator, mechanism: Any, step: str | None, reason: str
    ) -> Answer:
        try:
            release = curator.release(mechanism, rng=curator.ledger.randomness, step=step)
        except BudgetExceeded:
            raise
        except Exception:
            return RETRY
        certificate, charge = release.certificate, release.certificate.entries[0]
        dataset.keep_certificate(analyst.name, certificate)
        other = release.mechanism.specification() != mechanism.specification()
        content = {
            "value": packed(release.value),
            "certificate": certificate.to_json(),
            "restored": packed(release.mechanism.arrays()) if other else None,
        }
        self.log.append(
            {
                "what": "release", "who": analyst.name, "dataset": dataset.config.name, "charge": charge.id,
                "new": charge.id not in self.log.charges(dataset.config.name), "mechanism": type(mechanism).__name__,
                "cost": charge.loss.to_json(), "reason": reason, "answer": self.log.answer_digest(encoded(content)),
            }
        )  # fmt: skip
        return 200, content

    def _wait(self, began: float, cells: int) -> None:
        """Wait until the time that public sizes fix; a late answer waits for the next multiple of the quantum."""
        limits = self._config.limits
        due = 1 + cells // limits.cells
        taken = (time.monotonic() - began) / limits.quantum
        if taken > due:
            self.late += 1
            due = int(taken) + 1
        time.sleep(max(0.0, began + due * limits.quantum - time.monotonic()))

    def _of(self, analyst: Analyst) -> dict[str, HeldDataset]:
        return {name: dataset for name, dataset in self._datasets.items() if analyst.name in dataset.config.shares}

    def _dataset(self, analyst: Analyst, content: Mapping[str, Any]) -> HeldDataset:
        name = text_of(content, "dataset")
        dataset = self._of(analyst).get(name)
        if dataset is None:
            raise _Refused(404, "input", f"you have no share of a dataset {name!r} here")
        return dataset

    def _steps(self, analyst: Analyst, content: Mapping[str, Any]) -> dict[str, Mechanism]:
        """Return the mechanism of each step that is asked about: what it costs follows. Nothing is charged."""
        steps, listed = content.get("steps"), content.get("mechanisms")
        if not isinstance(steps, Mapping) or not 0 < len(steps) <= MAX_STEPS:
            raise InputError(f"must be from 1 to {MAX_STEPS}, by their names", argument="steps")
        if not isinstance(listed, list) or not 0 < len(listed) <= MAX_MECHANISMS:
            raise InputError(f"must be a list of 1 to {MAX_MECHANISMS} different ones", argument="mechanisms")
        numbers = steps.values()
        if not all(type(number) is int and 0 <= number < len(listed) for number in numbers):
            raise InputError("must have the number of a mechanism each, from 0 on", argument="steps")
        dataset = self._dataset(analyst, content)
        mechanisms = [_mechanism(dataset, analyst, description) for description in listed]
        return {text_of({"step": name}, "step"): mechanisms[number] for name, number in steps.items()}

    def _curator(self, analyst: Analyst, content: Mapping[str, Any]) -> Curator:
        dataset = self._dataset(analyst, content)
        run, listed = text_of(content, "run", default="") or None, content.get("splits", [])
        if not isinstance(listed, list) or len(listed) > MAX_SPLITS:
            raise InputError(f"must be a list of at most {MAX_SPLITS}", argument="splits")
        splits = []
        for split in listed:
            if not isinstance(split, Mapping) or type(split.get("part")) is not int:
                raise InputError("must hold parts, part and why", argument="splits")
            parts = unpacked(split.get("parts"), "parts")
            fits = parts.ndim == 1 and len(parts) <= dataset.records  # of a part of them there are fewer
            if not fits or parts.dtype.kind not in "iu" or parts.max(initial=0) >= MAX_PARTS:
                raise InputError(f"must be one integer below {MAX_PARTS} for each record", argument="parts")
            splits.append((parts.astype(np.int64), split["part"], text_of(split, "why", MAX_REASON)))
        return dataset.curator(analyst.name, run, splits)

    def _described(self, dataset: HeldDataset, analyst: Analyst) -> dict[str, Any]:
        config = dataset.config
        return {
            "dataset": config.name,
            "records": dataset.records,
            "order": dataset.order,
            "domain": dataset.domain.to_json(),
            "mechanisms": list(config.mechanisms),
            "features": list(config.features),
            "epsilon": str(config.budget.epsilon),
            "delta": str(config.budget.delta),
            "share": str(decimal(config.shares[analyst.name], "shares")),
        }

    def close(self) -> None:
        """Log that the server stopped, and the number of late answers."""
        self.log.append({"what": "stop", "late": self.late})
        self.log.close()

    @even_if_refused
    def __repr__(self) -> str:
        return f"Vault({', '.join(self._datasets)})"


def _mechanism(dataset: HeldDataset, analyst: Analyst, content: Any) -> Mechanism:
    """Return the mechanism that an analyst describes; raise InputError if there is none."""

    def basis(ids: list[str]) -> Certificate:
        releases = [Release(None, dataset.certificate(analyst.name, charge)) for charge in ids]
        return gather(releases, lambda *_: None).certificate

    return restore(read_description(content, basis), dataset.domain)


_CALLS: dict[str, Callable[[Vault, Analyst, dict[str, Any]], Answer]] = {name: getattr(Vault, name) for name in CALLS}


def serve_pipe(pipe: socket.socket, vault: Vault) -> None:
    """Answer what comes through a pipe, one request after the other, until the other side is gone."""
    while (message := receive(pipe)) is not None:
        status, content = vault.answer(*message)
        send(pipe, {"status": status}, encoded(content))
    vault.close()


def main(path: str, pipe: socket.socket, user: str | None) -> int:
    """Isolate this process, open what the configuration names, and answer."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the front ends the vault by closing the pipe, when all is answered
    try:
        cut = isolate(user)
        vault = Vault(Config.read(path))
        limit_memory(vault._config.limits.memory)
    except (LabelDPError, NotIsolated) as error:
        send(pipe, {"refused": str(error)})
        return 1
    except Exception as error:
        send(pipe, {"refused": f"the vault could not open ({type(error).__name__})"})
        return 1
    send(pipe, {"ready": True, "network": not cut, "limits": vars(vault._config.limits)})
    try:
        serve_pipe(pipe, vault)
    except (OSError, LedgerError):
        return 1
    return 0


if __name__ == "__main__":
    path, number, *user = sys.argv[1:]
    code = main(path, socket.socket(fileno=int(number)), user[0] if user else None)
    sys.stdout.flush()
    os._exit(code)
