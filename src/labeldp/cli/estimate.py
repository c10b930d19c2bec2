"""labeldp estimate: shares, effects, scores and prediction sets, from a released file or from one noisy release."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.account_options import budget_of_new_ledger, describe_budget
from labeldp.cli.options import (
    FILE,
    PATH,
    CommandGroup,
    add_options,
    align_columns,
    domain_options,
    flags_in_errors,
    json_option,
    new_budget_option,
    note,
    suggest_budget_change,
    warn_if_weak,
)
from labeldp.inference import ESTIMATES, USERS, EstimateEntry, Input

if TYPE_CHECKING:  # rooms are imported when a command needs them
    from labeldp.inference import Estimate, PredictionSets
    from labeldp.privacy import Release

EXAMPLES = """\b
Examples:
  labeldp estimate mean visits.csv --by channel
  labeldp estimate difference visits.csv --treated mail --by channel \\
      --report mail.html
  labeldp estimate evaluate visits.csv --probabilities score \\
      --why "trained on visits of last year"
  labeldp estimate difference raw.csv --treated mail --label visited \\
      --classes no,yes --ledger visits.ledger --dataset visited \\
      --trust central --epsilon 1 --id id
"""

Estimator = Callable[[Any], Any]
"""Returns an estimate from a release."""


@click.group("estimate", cls=CommandGroup, epilog=EXAMPLES)
def estimate() -> None:
    """Estimate statistics from noisy labels.

    Estimates have confidence intervals and cost no epsilon. FILE is what `labeldp release --in-place` wrote: public
    columns next to noisy labels. Without --in-place there are no other columns, and only the overall share,
    mean or quantile can be estimated.

    With --ledger, FILE holds raw labels and public columns. The noisy sums that the question needs are
    charged and released once. The same question again costs nothing.
    """


OUTPUTS: dict[str, Any] = {
    "level": click.option("--level", type=float, default=0.95, show_default=True, help="Coverage of the intervals."),
    "out": click.option(
        "--out", type=FILE, metavar="FILE", help="Write the set of each record of FILE: a new CSV file."
    ),
    "plot": click.option("--plot", type=FILE, metavar="FILE", help="Write a forest plot, a new SVG file."),
    "report": click.option("--report", type=FILE, metavar="FILE", help="Write a report, one HTML file."),
    "as_json": json_option,
}
"""The options of what a command prints and writes."""

METAVARS = {
    "numbers": "COLUMN",
    "arms": "COLUMN",
    "codes": "COLUMN",
    "column": "COLUMN",
    "table": "COLUMNS",
    "chances": "COLUMNS",
}
METAVARS |= {"why": "TEXT", "text": "CLASS", "name": "NAME", "shares": "NAME=SHARE,…"}

ACCOUNT = {"ledger", "dataset", "label", "classes", "interval", "grid", "clip", "epsilon", "trust", "id_column"}
ACCOUNT |= {"cohort", "revision", "other_ids", "sums", "new_budget"}
"""The options of raw labels."""

raw_label_options = add_options(
    click.option("--label", metavar="COLUMN", help="With --ledger: the column of private labels in FILE."),
    domain_options,
    click.option("--ledger", type=FILE, help="For raw labels: the ledger file. Protect it like the labels."),
    click.option("--dataset", metavar="NAME", help="With --ledger: the dataset's name in it."),
    new_budget_option,
    click.option("--epsilon", metavar="NUMBER", help="With --ledger: what the sums cost."),
    click.option("--trust", type=click.Choice(["central"]), help="With --ledger: who runs this may see the labels."),
    click.option("--id", "id_column", metavar="COLUMN", help="With --ledger: record ids; noise follows them."),
    click.option("--cohort", metavar="NAME", help="With --ledger: FILE holds only this cohort of the dataset."),
    click.option("--revision", metavar="NAME", help="With --ledger: a new name for labels that have changed."),
    click.option("--sums", type=FILE, metavar="FILE", help="With --ledger: a new file for the sums, to be audited."),
    click.option("--other-ids", is_flag=True, help="With --ledger: charge labels again whose ids were others."),
)
"""The options of a question about raw labels, which one release of noisy sums answers."""


class PublicColumns:
    """The public columns of a file."""

    def __init__(self, path: str, table: Any) -> None:
        self.path, self.table = path, table

    def column(self, name: str | None, flag: str) -> Any:
        """Return a public column; None without a name."""
        from labeldp.privacy import InputError
        from labeldp.tables import plain

        if name is None:
            return None
        if name not in self.table.column_names:
            raise InputError(
                f"{flag} must be a column of {self.path}, which has {', '.join(self.table.column_names)}; "
                "labeldp release --in-place keeps public columns next to the noisy labels"
            )
        values = plain(self.table.column(name).combine_chunks())
        if values.null_count:
            raise InputError(f"{flag} must be a column without missing values")
        return values

    def numbers(self, name: str | None, flag: str) -> Any:
        """Return a public column of numbers, or of true and false, shape (n,); None without a name."""
        from labeldp.privacy import InputError
        from labeldp.releases import numbers_in

        values = self.column(name, flag)
        numbers = None if values is None else numbers_in(values)
        if numbers is None and name is not None:
            raise InputError(f"{flag} must be a column of numbers, or of true and false")
        return numbers

    def codes(self, name: str, flag: str) -> Any:
        """Return a public column of classes as codes, shape (n,)."""
        from labeldp.mechanisms import Classes
        from labeldp.privacy import DomainError, InputError

        values = self.column(name, flag)
        if not isinstance(self.domain, Classes):
            raise InputError(f"{flag} goes with classes: the outcome of {self.path} is a number")
        try:
            return self.domain.in_file().encode(values)
        except (DomainError, InputError):
            raise InputError(f"{flag} must be a column of predicted classes of {self.domain!r}") from None

    @property
    def domain(self) -> Any:
        """What the labels are declared to be."""
        raise NotImplementedError

    def ask(self, question: str, estimator: Estimator, **columns: Any) -> Any:
        """Return what an estimator says of a release that answers a question; `columns` go into its request."""
        raise NotImplementedError


class ReleasedFile(PublicColumns):
    """A file of released answers: every question about it is free."""

    def __init__(self, path: str) -> None:
        from labeldp.releases import read_release
        from labeldp.tables import read_certificate

        self.release: Release[Any]
        self.release, table = read_release(path)
        self.released = read_certificate(path)["column"]
        super().__init__(path, table)

    @property
    def domain(self) -> Any:
        return self.release.mechanism.domain

    def column(self, name: str | None, flag: str) -> Any:
        """Return a public column; refuse the released one."""
        from labeldp.inference import REUSED
        from labeldp.privacy import InputError

        if name == self.released:
            raise InputError(f"{flag} {REUSED}")
        return super().column(name, flag)

    def ask(self, question: str, estimator: Estimator, **columns: Any) -> Any:
        return estimator(self.release)


class RawFile(PublicColumns):
    """A file of raw labels: each question is charged once, for the noisy sums that it needs."""

    def __init__(self, path: str, options: dict[str, Any]) -> None:
        from labeldp.curator import counting_unreadable
        from labeldp.fit import domain_of
        from labeldp.privacy import InputError
        from labeldp.releases import PrivateColumn

        self.options = options
        for name in ("label", "dataset", "epsilon"):
            if options[name] is None:
                raise InputError(f"--{name} must be given with --ledger")
        if options["trust"] is None:
            raise InputError(
                "--trust central must be given with --ledger: this command sees the labels. Otherwise "
                "release noisy labels with labeldp release, and estimate from its output"
            )
        domain = domain_of(options["classes"], options["interval"], options["grid"], clip=options["clip"])
        self.refuse_private(options["id_column"])  # before a message tells of its values
        with counting_unreadable(self._account, domain):
            self.private = PrivateColumn.read(path, options["label"], domain, options["id_column"])
            _ = self.private.records  # without public columns this reads the file
        super().__init__(path, self.private.public)

    @property
    def domain(self) -> Any:
        return self.private.domain

    def column(self, name: str | None, flag: str) -> Any:
        """Return a public column; refuse one with private labels before its values are read."""
        self.refuse_private(name)
        return super().column(name, flag)

    def refuse_private(self, column: str | None) -> None:
        """Refuse a column with private labels of the dataset."""
        from labeldp.curator import refuse_private

        refuse_private(self.options["ledger"], self.options["dataset"], [column])

    def _account(self) -> Any:
        from labeldp.curator import LedgerFile
        from labeldp.privacy import Budget

        options = self.options
        scope = {name: options[name] for name in ("cohort", "revision")}
        budget = Budget(options["new_budget"] or options["epsilon"])
        return LedgerFile(options["ledger"]).dataset(options["dataset"], budget=budget, **scope)

    def ask(self, question: str, estimator: Estimator, **columns: Any) -> Any:
        from labeldp.fit import epsilon_of
        from labeldp.privacy import Request, Source

        warn_if_weak(self.options["epsilon"])
        account = {name: self.options[name] for name in ("cohort", "revision")}
        named = self.options["ledger"], self.options["dataset"]
        request = Request.of(
            "sums",
            question,
            named[1],
            Source.of(self.path, self.private.label, self.private.id_column),
            epsilon_of(self.options["epsilon"]),
            0,
            domain=self.domain,
            other_ids=self.options["other_ids"] or None,
            **account,
            **columns,
        )
        estimator(self.private.rehearse(self.private.plan(request)))  # what is refused is refused before the charge
        budget = budget_of_new_ledger(*named, self.options["new_budget"], self.options["epsilon"])
        with suggest_budget_change(*named):
            release = self.private.release(
                request, ledger=named[0], out=self.options["sums"], note=note, new_budget=budget
            )
        note(describe_budget(*named))
        return estimator(release)


def source_of(data: str, options: dict[str, Any]) -> PublicColumns:
    """Return the file that is asked: released, or raw where a ledger is named."""
    from labeldp.privacy import InputError

    outputs = [(name, options[name]) for name in ("out", "plot", "report", "sums") if options.get(name) is not None]
    for name, path in outputs:  # before anything is charged
        if os.path.lexists(path):
            raise InputError(f"--{name} {path} exists already: name a new file")
        if not os.access(os.path.dirname(path) or ".", os.W_OK):
            raise InputError(f"--{name} {path} cannot be written: there is no such directory, or it is read-only")
    paths = [options.get("ledger") or data, *dict(outputs).values()]
    if len(set(map(os.path.abspath, paths))) < len(paths):
        raise InputError("must be different files", argument=("ledger", *dict(outputs)))
    if options.get("ledger") is not None:
        return RawFile(data, options)
    for name in sorted(ACCOUNT & options.keys()):
        if options[name]:
            flag = {"interval": "range", "id_column": "id"}.get(name, name.replace("_", "-"))
            raise InputError(f"--{flag} goes with --ledger, where FILE holds raw labels")
    return ReleasedFile(data)


def values_of(source: PublicColumns, inputs: Sequence[Input], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an estimator: what the options of its inputs name or hold."""
    import numpy as np

    from labeldp.privacy import InputError, Public
    from labeldp.releases import arms_in

    chosen: dict[str, Any] = {}
    for entry in inputs:
        value, flag = options[entry.argument], entry.option
        if entry.kind == "why":
            continue
        if entry.kind == "column":
            column = source.column(value, flag)
            value = None if column is None else column.to_numpy(zero_copy_only=False)
        elif entry.kind == "numbers":
            value = source.numbers(value, flag)
        elif entry.kind == "arms":
            value = arms_in(source.column(value, flag))
        elif entry.kind == "codes":
            value = source.codes(value, flag)
        elif entry.kind == "shares":
            value = shares_in(value, flag)
        elif entry.kind in ("table", "chances") and value is not None:
            names = value.split(",")
            value = np.column_stack([source.numbers(name, flag) for name in names])
            chosen |= {entry.titles: names} if entry.titles else {}
        if entry.kind == "chances" and value is not None:
            value = np.column_stack([1 - value, value]) if value.shape[1] == 1 else value
            if value.min() < 0 or np.abs(value.sum(axis=1) - 1).max() > 1e-3:
                raise InputError(f"{flag} must be at least 0, in rows that sum to 1")
        if "why" in options and entry.kind in ("numbers", "codes", "chances") and value is not None:
            if options["why"] is None:
                raise InputError(f"--why must be given with {flag}: why these labels did not make them")
            value = Public(value, why=options["why"])
        chosen[entry.argument] = value
    return chosen


def shares_in(text: str, flag: str) -> dict[str, float]:
    """Return the number behind each name of a text such as "north=0.6,south=0.4"."""
    from labeldp.fit import decimal_float
    from labeldp.privacy import InputError

    pairs = [part.rpartition("=") for part in text.split(",")]
    names = [name for name, _, _ in pairs]
    if not all(names) or len(set(names)) < len(names):
        raise InputError(f"{flag} must be a number for each name, such as north=0.6,south=0.4")
    return {name: decimal_float(number, flag) for name, _, number in pairs}


def show(result: Estimate, options: dict[str, Any], scores: Any = None, *, summary: bool = False) -> None:
    """Print an estimate: a sentence, a row for each entry, the conditions and the certificate."""
    if options["plot"] is not None:
        write_page(options["plot"], result.plot())
    if options["report"] is not None:
        from labeldp.report import render_estimate

        write_page(options["report"], render_estimate(result, scores))
    rows = result.table().to_pylist()
    if options["as_json"]:
        show_json({"estimates": rows}, result)
        return
    click.echo(result.summary() if summary else str(result))
    if result.axes and not summary:
        names, numbers = [name for name, _ in result.axes], ("value", "low", "high")
        cells = [[*(row[name] for name in names), *(f"{row[key]:.4g}" for key in numbers)] for row in rows]
        click.echo("\n".join(align_columns([[*names, "estimate", "low", "high"], *cells])))
    show_conditions(result)


def write_page(path: str, text: str) -> None:
    """Write a report or a picture, whole or not at all."""
    from labeldp.tables import atomic_write

    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def show_json(content: dict[str, Any], result: Estimate | PredictionSets) -> None:
    """Print rows as JSON, with the conditions and the certificate."""
    certificate = None if result.certificate is None else result.certificate.to_json()
    content |= {"assumptions": list(result.assumptions), "certificate": certificate}
    click.echo(json.dumps(finite(content), indent=2, allow_nan=False))


def finite(content: Any) -> Any:
    """Return JSON values with null in place of infinite numbers and NaN, which JSON has not."""
    if isinstance(content, dict):
        return {name: finite(value) for name, value in content.items()}
    if isinstance(content, list):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not isfinite(content) else content


def show_conditions(result: Estimate | PredictionSets) -> None:
    """Print on which conditions an estimate holds, and the certificate of its release."""
    from labeldp.privacy import one_line

    click.echo(one_line("On condition that: " + "; ".join(result.assumptions) + "."))
    if result.certificate is not None:
        click.echo(result.certificate.at(0))


def show_sets(result: PredictionSets, options: dict[str, Any], domain: Any, sets: Any) -> None:
    """Print thresholds of prediction sets, the conditions and the certificate; write the sets."""
    if options["out"] is not None:
        write_sets(options["out"], sets, domain)
    if options["report"] is not None:
        from labeldp.report import render_sets

        write_page(options["report"], render_sets(result, sets))
    rows = result.table().to_pylist()
    if options["as_json"]:
        show_json({"thresholds": rows}, result)
        return
    click.echo(str(result))
    if result.axes:
        name = result.axes[0][0]
        click.echo("\n".join(align_columns([[name, "threshold"], *([r[name], f"{r['threshold']:.4g}"] for r in rows)])))
    else:
        click.echo(f"threshold {result.threshold:.4g}")
    show_conditions(result)


def write_sets(path: str, sets: Any, domain: Any) -> None:
    """Write the names of the classes in the set of each record, with a bar between them."""
    import numpy as np
    import pyarrow as pa

    from labeldp.tables import table_writer

    names = np.asarray(domain.decode(np.arange(domain.size))).astype(str)
    with table_writer(path, ["set"]) as write:
        write([pa.array(["|".join(names[row]) for row in sets])])


def option_of(entry: Input) -> Any:
    """Return the option of an input."""
    shown: dict[str, Any] = {"help": entry.help, "required": entry.required}
    if entry.default is not None:
        shown |= {"default": entry.default, "show_default": True}
    if entry.choices:
        shown["type"] = click.Choice(entry.choices)
    elif entry.kind == "number":
        shown["type"] = float
    elif entry.kind == "switch":
        shown["is_flag"] = True
    else:
        shown["metavar"] = METAVARS[entry.kind]
    return click.option(entry.option, entry.argument, **shown)


def command_of(name: str, entry: EstimateEntry) -> click.Command:
    """Return the command of a row of `ESTIMATES`."""
    inputs = (*entry.inputs, USERS)
    flags = {part.alias: part.option for part in inputs if part.alias}

    @flags_in_errors(groups="--by", users="--user", release="FILE", **flags)
    def run(data: str, **options: Any) -> None:
        run_estimate(entry, data, options)

    run.__doc__ = entry.help
    parts = [option_of(part) for part in inputs] + [OUTPUTS[output] for output in entry.outputs]
    file = click.argument("data", metavar="FILE", type=PATH)
    return click.command(name)(add_options(file, *parts)(raw_label_options(run) if entry.sums else run))


def run_estimate(entry: EstimateEntry, data: str, options: dict[str, Any]) -> None:
    """Read the columns, ask for what the estimate needs, and show the result."""
    from labeldp.inference import PredictionSets
    from labeldp.privacy import InputError

    if options.get("out") is not None and options["probabilities"] is None:
        raise InputError("--out goes with --probabilities: sets are of classes")
    source = source_of(data, options)
    chosen = values_of(source, (*entry.inputs, USERS), options)
    chosen |= {"level": options["level"]} if "level" in options else {}
    chosen |= {argument: values[bool(options["report"])] for argument, values in entry.details.items()}
    score = "" if "" in entry.sums else options.get("score", "")
    if isinstance(source, RawFile) and score not in entry.sums:
        raise InputError(f"--score {score} needs single answers: labeldp release, and estimate from its output")
    columns = {part.role: options[part.argument] for part in entry.inputs if part.role}
    function = entry.load()
    answer = source.ask(entry.sums.get(score, ""), lambda release: function(release, **chosen), **columns)
    result, beside = answer if isinstance(answer, tuple) else (answer, None)
    if isinstance(result, PredictionSets):
        show_sets(result, options, source.domain, beside)
    else:
        show(result, options, beside, summary=entry.summary)


for _name, _entry in ESTIMATES.items():
    estimate.add_command(command_of(_name, _entry))
