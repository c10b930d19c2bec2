"""The labels and the full request of a release, enough to run it again. It holds nothing computed from labels."""

import hashlib
import json
import math
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Integral
from pathlib import Path
from typing import Any

from labeldp._version import __version__
from labeldp.privacy.errors import InputError
from labeldp.privacy.exact import decimal, decimal_text
from labeldp.privacy.loss import Budget
from labeldp.privacy.unit import Unit
from labeldp.privacy.validate import path_text, stored_fraction


@dataclass(frozen=True)
class Scope:
    """The labels that a charge is about, by public names.

    Args:
        dataset: the dataset's name in the ledger.
        column: one of several private columns of the dataset; empty where it has one without a name.
        revision: the state of the labels; empty for the first.
        cohort: the records that came together; empty for all records.
        analyst: whose share is charged; empty for none.
        unit: what is protected.
    """

    dataset: str
    column: str = ""
    revision: str = ""
    cohort: str = ""
    analyst: str = ""
    unit: Unit = Unit.ONE_LABEL

    @classmethod
    def parse(cls, text: str, *, unit: Unit = Unit.ONE_LABEL, **fields: str) -> "Scope":
        """Return the scope that "survey/income" or "survey" names.

        Raises:
            InputError: a name with control characters.
        """
        if not all(name.isprintable() for name in (text, *fields.values())):
            raise InputError("must be a printable name", argument="dataset")
        dataset, slash, column = text.rpartition("/")
        if not (slash and dataset.strip() and column.strip()):
            dataset, column = text, ""
        return cls(dataset, column, unit=unit, **fields)

    @property
    def name(self) -> str:
        """The name of the labels in the ledger, such as "survey/income"."""
        return f"{self.dataset}/{self.column}" if self.column else self.dataset

    def to_json(self) -> dict[str, str]:
        """Return plain JSON values; what is empty is left out."""
        return {name: value for name, value in (vars(self) | {"unit": self.unit.name}).items() if value}


@dataclass(frozen=True)
class RequestKind:
    """A kind of request: its command, its options, and the "module:function" that answers it.

    The function is called with the request, the data and the keyword `ledger`; `TOTALS` names those of totals. `flag`
    is the option that names the learner, mechanism or method; without one a word of the command names it.
    """

    command: str
    answered_by: str
    options: str
    flag: str = ""


REQUEST_KINDS = {
    "fit": RequestKind(
        "fit",
        "labeldp.fit:fit_file",
        "trust chosen stages prior epochs cells neighbors network evaluation other_ids encoder server",
        "--model",
    ),
    "release": RequestKind("release", "labeldp.releases:ask_column", "in_place other_ids described", "--mechanism"),
    "aggregate": RequestKind(
        "release", "labeldp.bags:ask_bags", "size bags noisy weights rows other_ids", "--mechanism"
    ),
    "online": RequestKind(
        "online run", "labeldp.online:ask_online", "neighbors loss_bits horizon levels experts", "--method"
    ),
    "sums": RequestKind("estimate", "labeldp.releases:ask_sums", "by treated probabilities one other why other_ids"),
    "totals": RequestKind(
        "a call of labeldp.releases",
        "",
        "groups why partition mechanism clip resolution bags size representation dimension",
    ),
}
"""Kinds of requests: the only list. A new option is added here, and read where the request is answered."""

TOTALS = {
    "histogram": "labeldp.releases:ask_histogram",
    "cells": "labeldp.releases:ask_cells",
    "moments": "labeldp.releases:ask_moments",
    "fit-cells": "labeldp.releases:ask_fit_cells",
    "bag-sum": "labeldp.bags:ask_bag_sum",
    "fit-linear": "labeldp.fit:ask_fit_linear",
}
"""What answers requests for totals of a table, which one pass sums up; they are asked for in Python alone."""

QUESTIONS = {"auc": ("evaluate", "--score", "auc")}
"""The words of questions to sums, where these are not the name of the question alone."""

NOT_TYPED = ("chosen", "server")
"""Options that no command line has."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_DIGEST = re.compile(r"([0-9a-f]{64})?")


def number_text(value: Any, name: str) -> str:
    """Return a finite number exactly: its shortest decimal where a float means it, else a ratio."""
    exact = decimal(value, name)
    near = float(exact)
    return decimal_text(near) if decimal(near, name) == exact else str(exact)


@dataclass(frozen=True)
class Source:
    """Public source of rows: the file and the roles of its columns.

    Args:
        name: of the file, without its folder; empty for rows in memory.
        label: the private column.
        ids: the column of record ids; empty for row numbers.
        users: the column of user ids; empty to protect each record by itself.
        features: the feature columns that were named; empty for all.
        rows: their number if it is known before labels are read, else 0.
        digest: the SHA-256 of features and ids if a model learns from them, else empty.
    """

    name: str = ""
    label: str = ""
    ids: str = ""
    users: str = ""
    features: tuple[str, ...] = ()
    rows: int = 0
    digest: str = ""

    @classmethod
    def of(
        cls,
        data: Any,
        label: str = "",
        ids: str | None = None,
        users: str | None = None,
        *,
        features: Sequence[str] | None = None,
    ) -> "Source":
        """Return the source of rows in a file, or in memory: files are named without their folder.

        Raises:
            InputError: a column without a name, or features that are no list of columns.
        """
        for argument, column in (("label", label), ("id_column", ids), ("user_column", users)):
            if not (column is None or isinstance(column, str)) or (column == "" and argument != "label"):
                raise InputError("must be the name of a column", argument=argument)
        if isinstance(features, str) or (features is not None and not features):
            raise InputError("must be a list of columns, one at least", argument="features")
        name = path_text(Path(data).name) if isinstance(data, str | os.PathLike) else ""
        return cls(name, label, ids or "", users or "", tuple(features or ()))


@dataclass(frozen=True)
class NamedFile:
    """A public file that was given next to the data: its name without its folder, and the SHA-256 of its content."""

    name: str
    digest: str


@dataclass(frozen=True)
class Request:
    """Arguments of a command, an estimator or a call; made before a label is read.

    Args:
        kind: a key of `REQUEST_KINDS`.
        does: the name of a learner, mechanism or online method in its catalog, of a question to sums, or of totals.
        epsilon, delta: exact numbers as texts; see `number_text`.
        domain: the declared labels, as `Domain.to_json` gives them; empty for losses.
        options: further options by name: truth values, numbers, texts, and tuples of them.
        cap: the largest number of records of one user that are used; 0 for no cap.
        files: public files beside the data, by what they are for: "test" and "init".

    Guarantee (no_labels): two sets of labels of the same records give the same request, byte for byte.
    """

    kind: str
    does: str
    scope: Scope
    source: Source
    epsilon: str
    delta: str = "0"
    domain: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    cap: int = 0
    files: Mapping[str, NamedFile] = field(default_factory=dict)
    version: str = ""

    def __post_init__(self) -> None:
        options = {name: _plain(value) for name, value in self.options.items() if value is not None}
        object.__setattr__(self, "options", options)

    @classmethod
    def of(
        cls,
        kind: str,
        does: str,
        dataset: str,
        source: Source,
        epsilon: Any,
        delta: Any = 0,
        *,
        domain: Any = None,
        cohort: str | None = None,
        revision: str | None = None,
        cap: int | None = None,
        files: Mapping[str, NamedFile] | None = None,
        unit: Unit = Unit.ONE_LABEL,
        **options: Any,
    ) -> "Request":
        """Return the request of this version; options that are None or False are left out.

        Its unit of protection is `unit`, or all labels of a user where the source has users.
        """
        if empty := [name for name, text in (("cohort", cohort), ("revision", revision)) if text == ""]:
            raise InputError("must be a printable text that is not empty, such as '2026-02'", argument=empty[0])
        unit = Unit.ONE_USER if source.users else unit
        scope = Scope.parse(dataset, cohort=cohort or "", revision=revision or "", unit=unit)
        if not (domain is None or hasattr(domain, "to_json")):
            raise InputError('must be declared, such as Classes(("no", "yes")) or Interval(0, 100)', argument="domain")
        numbers = number_text(epsilon, "epsilon"), number_text(delta, "delta")
        labels = {} if domain is None else domain.to_json()
        options = {name: value for name, value in options.items() if value is not False}
        return cls(kind, does, scope, source, *numbers, labels, options, cap or 0, files or {}, __version__)

    @property
    def digest(self) -> str:
        """The SHA-256 of the request without version and file names."""
        files = {name: replace(file, name="") for name, file in self.files.items()}
        nameless = replace(self, source=replace(self.source, name=""), files=files, version="")
        return hashlib.sha256(json.dumps(nameless.to_json(), sort_keys=True).encode()).hexdigest()

    @property
    def budget(self) -> Budget:
        """What it costs: epsilon and delta, exact."""
        return Budget(stored_fraction(self.epsilon), stored_fraction(self.delta))

    @property
    def answered_by(self) -> str:
        """The "module:function" that answers it, as `labeldp.mechanisms.load` takes it.

        Raises:
            InputError: totals that this version does not know.
        """
        function = REQUEST_KINDS[self.kind].answered_by or TOTALS.get(self.does)
        if function is None:
            raise InputError(f"is of totals {self.does!r}, which this labeldp does not know", argument="request")
        return function

    def check_options(self) -> None:
        """Raise InputError for an option that requests of this kind do not have."""
        if unknown := [name for name in self.options if name not in REQUEST_KINDS[self.kind].options.split()]:
            raise InputError(f"the request has an option {unknown[0]!r}, which this labeldp does not know")

    def command(
        self, program: str = "labeldp", *, ledger: str = "LEDGER", out: str = "OUT", curator: str | None = None
    ) -> str:
        """Return the command line that asks the same again.

        Args:
            ledger: the ledger file; empty for none.
            curator: the address of the server that holds the labels, in place of a ledger, columns and domain.

        Raises:
            InputError: no command asks for this.
        """
        if self.kind == "totals":
            raise InputError("no command asks for the totals of a table: they are asked for in Python")
        if curator is None:
            words = [self.source.name or "DATA", *_typed("label", self.source.label), *self._domain_words()]
            account = ["--ledger", ledger, "--dataset", self.scope.name] if ledger else []
        else:
            words = [self.source.name]
            account = ["--curator", curator, "--dataset", self.scope.name]
        words += ["--epsilon", self.epsilon, *account]
        words += _typed("delta", self.delta if self.delta != "0" or self.kind == "online" else "")
        words += [*_typed("id", self.source.ids), *_typed("user", self.source.users)]
        words += [*_typed("per-user", self.cap), "--sums" if self.kind == "sums" else "--out", out]
        question = QUESTIONS.get(self.does, (self.does,)) if self.kind == "sums" else ()
        if question:
            words += [*question[1:], "--trust", "central"]
        else:
            words += [REQUEST_KINDS[self.kind].flag, self.does]
        for name, value in self.options.items():
            words += [] if name in NOT_TYPED else _typed(name, value)
        words += [*_typed("features", self.source.features), *_typed("cohort", self.scope.cohort)]
        words += _typed("revision", self.scope.revision)
        words += [word for name, file in self.files.items() for word in _typed(name, file.name)]
        return shlex.join([program, *REQUEST_KINDS[self.kind].command.split(), *question[:1], *filter(None, words)])

    def _domain_words(self) -> list[str]:
        if "classes" in self.domain:
            return ["--classes", ",".join(map(str, self.domain["classes"]))]
        if not self.domain:
            return []
        low, high = (decimal_text(float(Fraction(self.domain[end]))) for end in ("low", "high"))
        words = ["--range", f"{low},{high}", "--grid", str(self.domain["grid"])]
        return [*words, "--clip"] if self.domain.get("clip") else words

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; what is empty is left out."""
        content: dict[str, Any] = {
            "kind": self.kind,
            "does": self.does,
            "scope": self.scope.to_json(),
            "source": {name: _listed(value) for name, value in vars(self.source).items() if value},
            "domain": dict(self.domain),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "options": {name: _listed(value) for name, value in self.options.items()},
            "cap": self.cap,
            "files": {name: dict(vars(file)) for name, file in self.files.items()},
            "version": self.version,
        }
        return {name: value for name, value in content.items() if value or name == "scope"}

    @classmethod
    def from_json(cls, value: Any) -> "Request":
        """Return the request that `to_json` wrote, after checking every part: the file may be a stranger's.

        A request has no path and no module; its names are only compared with catalogs.

        Raises:
            InputError: not a request.
        """
        try:
            return cls._checked(dict(value))
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InputError("this is not a request of labeldp") from error

    @classmethod
    def _checked(cls, value: dict[str, Any]) -> "Request":
        scope, source = dict(value.pop("scope")), dict(value.pop("source"))
        scope["unit"] = Unit[scope["unit"]]
        source["features"] = tuple(source.get("features", ()))
        files = {name: NamedFile(**file) for name, file in dict(value.pop("files", {})).items()}
        request = cls(**value, scope=Scope(**scope), source=Source(**source), files=files)
        names = [request.source.name, *(file.name for file in files.values())]
        texts = [*request.scope.to_json().values(), *source["features"], *names, request.version, *files]
        texts += [getattr(request.source, name) for name in ("label", "ids", "users")]
        numbers = [request.cap, request.source.rows]
        checks = (
            request.kind in REQUEST_KINDS,
            (request.scope.unit is Unit.ONE_USER) == bool(request.source.users),
            _NAME.fullmatch(request.does),
            all(isinstance(text, str) for text in texts),
            all(Path(name).name == name for name in names),
            all(_DIGEST.fullmatch(digest) for digest in (request.source.digest, *(f.digest for f in files.values()))),
            all(type(number) is int and 0 <= number < 1 << 62 for number in numbers),
            all(isinstance(text, str) and stored_fraction(text) >= 0 for text in (request.epsilon, request.delta)),
            all(_NAME.fullmatch(name.replace("_", "-")) and _is_plain(part) for name, part in request.options.items()),
            isinstance(request.domain, dict) and all(_is_plain(_plain(part)) for part in request.domain.values()),
        )
        if not all(checks):
            raise ValueError("a part of it is no such value")
        return request


def _typed(name: str, value: Any) -> list[str]:
    """Return the words of an option on a command line; none if it has no value."""
    if value is None or value is False or value in ("", (), 0):
        return []
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return [flag]
    if isinstance(value, tuple):
        return [flag, ",".join(map(str, value))]
    return [flag, decimal_text(value) if isinstance(value, float) else str(value)]


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _plain(value: Any) -> Any:
    """Return a list as a tuple, and an integer of NumPy as one of Python."""
    if isinstance(value, list):
        return tuple(value)
    return value if isinstance(value, bool) or not isinstance(value, Integral) else int(value)


def _is_plain(value: Any) -> bool:
    """Return whether a value is a truth value, a finite number, a text, or a tuple of such."""
    if isinstance(value, tuple):
        return all(not isinstance(part, tuple) and _is_plain(part) for part in value)
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
