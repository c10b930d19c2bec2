"""labeldp audit: is a guarantee kept, by a table of probabilities, a program, or what a command wrote."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import FILE, PATH, CommandGroup, flags_in_errors, json_option, progress

if TYPE_CHECKING:
    from labeldp.releases import Check

COMMAND_EXAMPLES = """\b
Examples:
  labeldp audit command --one a.csv --other b.csv --runs 500 \\
      -- python noise.py {}
  labeldp audit command --one a.csv --other b.csv --epsilon 1 \\
      --each-line --runs 1 -- ./randomize
"""

PROGRAM_EXAMPLES = """\b
Examples:
  labeldp audit program noise.py:noisy_counts --classes no,yes --epsilon 1
  labeldp audit program train.py:main --range 0,100 --epsilon 2 \\
      --delta 1e-6 --pairs 50 --out trace.json
"""

TABLE_EXAMPLES = """\b
Examples:
  labeldp audit table mechanism.csv
  labeldp audit table mechanism.csv --epsilon 1 --delta 1e-6
  labeldp audit table mechanism.csv --epsilon 1 --picture curve.svg --json
"""

EXAMPLES = """\b
Examples:
  labeldp audit noisy.csv
  labeldp audit model --ledger people.ledger
  labeldp audit noisy.csv --ledger people.ledger --data people.csv \\
      --out audit.html
  labeldp audit table mechanism.csv --epsilon 1
"""


class _AuditGroup(CommandGroup):
    """A group whose first word can be the path of a result; write ./NAME if a path has the name of a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `run` before what is neither a command nor a call for help."""
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_AuditGroup, epilog=EXAMPLES, subcommand_metavar="PATH [OPTIONS] | COMMAND …")
def audit() -> None:
    """Check a privacy guarantee.

    \b
    labeldp audit PATH checks a model, a release or online decisions.
    The commands below check any mechanism, of labeldp or not.
    """


@audit.command(epilog=EXAMPLES)
@click.argument("path", type=PATH)
@click.option("--ledger", type=FILE, metavar="FILE", help="The ledger that was charged: are the charges in it?")
@click.option("--data", type=PATH, metavar="DATA", help="With --ledger: the private file; the values are recomputed.")
@click.option("--init", type=PATH, metavar="DIR", help="The model that a fit started from, as its --init.")
@click.option("--test", type=FILE, metavar="FILE", help="The public test file of a fit, as its --test.")
@click.option(
    "--signed-by", type=PATH, metavar="FILE", help="A public key (Ed25519, PEM); PATH must be signed by its owner."
)
@click.option("--signature", type=PATH, metavar="FILE", help="The signature; by default PATH.signature.")
@click.option("--out", type=FILE, metavar="FILE.html", help="A new page that an auditor signs, with two printed pages.")
@json_option
@flags_in_errors()
def run(path: str, data: str | None, out: str | None, as_json: bool, **options: Any) -> None:
    """Check a model, a release or online decisions.

    `labeldp audit PATH` is enough. With --ledger the whole certificate is compared with the ledger. With --data,
    too, the released values are computed again from the labels and the ledger's keys, on a copy of the ledger
    that is removed, and a lower bound of epsilon is computed from them: what is said then is as secret as the
    labels. With --signed-by a signature shows that the files are those that the owner of the key signed. It shows
    nothing about noise or charges. Nothing is charged.

    \b
    Ends with status
      0  if all checks hold; the first line says what was not checked;
      1  if something differs, or there is an error; it says so first;
      2  if something is unverified: without --ledger or --signed-by the
         certificate, without --data or --signed-by the values, and
         whatever cannot be recomputed.
    """
    from labeldp.audit import audit_run, worst_first
    from labeldp.privacy import rounded_up_text
    from labeldp.report import render_audit, render_report
    from labeldp.tables import atomic_write

    page = nullcontext() if out is None else atomic_write(out, private=data is not None)
    with page as draft, progress("reading") as show:
        result = audit_run(path, data=data, render=render_report, progress=show, **options)
        if draft is not None:
            draft.write_text(render_audit(result), encoding="utf-8", newline="\n")
    if as_json:
        click.echo(json.dumps(result.to_json(), indent=2))
    else:
        lines = [_line(check) for check in worst_first(result.checks)]
        if result.bound is not None:
            claim = f"Claim: epsilon = {rounded_up_text(result.claim)}. From the released values {result.bound}."
            lines.append(f"{MARKS[not result.refuted]} {claim}")
        lines += [f"{MARKS[None]} Not checked: {sentence}" for sentence in result.not_checked]
        click.echo(f"{path}: {result.headline}\n")
        for line in lines:
            for part in wrap(line, 80, initial_indent="  ", subsequent_indent="    ", break_long_words=False):
                click.echo(part)
        if result.secret:
            click.echo("Computed from raw labels: this is as secret as they are.")
        if out is not None:
            click.echo(f"Page: {out}")
    sys.exit(_STATUSES[result.verdict])


_STATUSES = {"holds": 0, "fails": 1, "unverified": 2}

MARKS = {True: "\N{CHECK MARK}", False: "\N{BALLOT X}", None: "\N{EN DASH}"}
"""The mark before a check that passed, failed or could not be made."""


def _line(check: Check) -> str:
    return f"{MARKS[check.holds]} {check.sentence.replace('Unverified: ', 'Not checked: ', 1)}"


@audit.command(epilog=TABLE_EXAMPLES)
@click.argument("path", metavar="TABLE.csv", type=FILE)
@click.option("--epsilon", metavar="E", help="A claim: ends with status 1 where it does not hold.")
@click.option("--delta", metavar="D", help="The delta of the claim, 0 by default; alone, asks for the epsilon at it.")
@click.option("--picture", type=FILE, metavar="FILE.svg", help="Draw delta against epsilon; replaces the file.")
@json_option
@flags_in_errors()
def table(path: str, epsilon: str | None, delta: str | None, picture: str | None, as_json: bool) -> None:
    """Compute the exact privacy of a table of probabilities.

    TABLE.csv has a row for each label and a column for each output; a header and a first column of names may be there.
    Decimals and ratios (1/3) are exact, and every ordered pair of labels is compared in integers without rounding.
    Rounded decimals can cost a little more than their mechanism. Integers that all sum to the same number, such as
    2^64, are allowed, too.
    """
    from labeldp.audit import audit_csv, describe_table

    result = audit_csv(path)
    if picture is not None:
        _draw(result, picture, epsilon, delta)
    if as_json:
        click.echo(json.dumps(result.to_json(epsilon, delta), indent=2))
    else:
        for sentence in describe_table(result, epsilon, delta):
            click.echo(sentence)
    if epsilon is not None and not result.holds(epsilon, 0 if delta is None else delta):
        sys.exit(1)


def _draw(result: Any, picture: str, epsilon: str | None, delta: str | None) -> None:
    """Write the picture of a table's curve."""
    from labeldp.privacy import InputError
    from labeldp.report import draw_loss
    from labeldp.tables import atomic_write

    curve = result.curve()
    if curve is None:
        raise InputError("--picture needs delta at many epsilons, and the table is too large for it")
    claim = None if epsilon is None else (float(epsilon), float(delta or 0))
    with atomic_write(picture, overwrite=True) as draft:
        draft.write_text(str(draw_loss(curve.epsilons, curve.high, claim)) + "\n", encoding="utf-8")


@audit.command(epilog=COMMAND_EXAMPLES)
@click.argument("words", metavar="-- PROGRAM …", nargs=-1, required=True)
@click.option("--one", required=True, type=FILE, help="An input.")
@click.option("--other", required=True, type=FILE, help="The same with another label: a neighbor.")
@click.option("--runs", type=click.IntRange(1), default=200, show_default=True, help="Runs on each input.")
@click.option("--each-line", is_flag=True, help="Each printed line is a separate output, drawn independently.")
@click.option("--epsilon", metavar="E", help="A claim: ends with status 1 where the bound is above it.")
@click.option("--delta", default="0", show_default=True, metavar="D", help="The delta of the claim.")
@click.option("--level", type=float, default=0.95, show_default=True, help="The confidence of the bound.")
@json_option
@flags_in_errors()
def command(words: tuple[str, ...], epsilon: str | None, delta: str, as_json: bool, **options: Any) -> None:
    """Bound the epsilon of a program from its outputs.

    Runs the program on two neighboring inputs.

    {} in the words of PROGRAM stands for the path of the input, which else comes on stdin. On one half of the runs an
    event is searched that is likelier for one input, on the other half it is counted: the program is not epsilon-DP
    below the bound, with confidence. A bound below a claim proves nothing: more runs, or other inputs, may show more.
    """
    from labeldp.audit import audit_command
    from labeldp.privacy import decimal

    claim = None if epsilon is None else float(decimal(epsilon, "epsilon"))
    share = float(decimal(delta, "delta"))
    with progress("running") as show:
        result = audit_command(words, delta=share, progress=show, **options)
    refuted = claim is not None and result.refutes(claim)
    if as_json:
        bound = {"epsilon": result.epsilon, "delta": result.delta, "level": result.level, "how": result.how}
        click.echo(json.dumps({"lower_bound": bound, "refuted": refuted}, indent=2))
    else:
        text = str(result)
        click.echo(f"{text[0].upper()}{text[1:]}.")
        if claim is not None:
            verdict = "is REFUTED" if refuted else "is not refuted"
            click.echo(f"The claim epsilon = {epsilon}, delta = {delta} {verdict}.")
    if refuted:
        sys.exit(1)


@audit.command(epilog=PROGRAM_EXAMPLES)
@click.argument("program", metavar="FILE.py:FUNCTION")
@click.option("--classes", metavar="A,B,…|K", help="The class names, or how many classes.")
@click.option("--range", "interval", metavar="LOW,HIGH", help="The range of the labels.")
@click.option(
    "--labels", "count", type=click.IntRange(1), default=200, show_default=True, help="How many synthetic labels."
)
@click.option("--data", type=FILE, metavar="DATA", help="A table with real labels in place of synthetic ones.")
@click.option("--label", metavar="COLUMN", help="With --data: the private column.")
@click.option("--epsilon", required=True, metavar="E", help="What the program claims.")
@click.option("--delta", default="0", show_default=True, metavar="D", help="The delta of the claim.")
@click.option("--pairs", type=click.IntRange(1), default=20, show_default=True, help="How many neighbors are tried.")
@click.option(
    "--out", type=FILE, metavar="FILE.json", help="Write the trace; with real labels only its owner can read it."
)
@flags_in_errors()
def program(
    program: str, data: str | None, label: str | None, count: int, out: str | None, pairs: int, **options: Any
) -> None:
    """Find privacy mistakes inside a program.

    FUNCTION takes labels and a numpy generator, its only source of noise, and returns its output. It runs on labels
    and on neighbors with the same noise: whatever else differs depends on labels. Reports which lines read labels,
    draw noise, and where a claim breaks. Labels are synthetic, unless --data says otherwise. That nothing is found
    proves nothing. It does not see an event that no pair of inputs meets (such as a change of two labels at once),
    time and memory, threads, errors, what compiled libraries keep, and programs that look for an audit.

    \b
    Ends with status 0 if no mistake was found, 1 if one was, 2 if
    something could not be checked.
    """
    import numpy as np

    from labeldp.audit import trace
    from labeldp.fit import domain_of
    from labeldp.privacy import InputError
    from labeldp.tables import atomic_write, open_table

    function = _function(program)
    domain = domain_of(options["classes"], options["interval"], None, clip=False)
    ends = np.asarray(domain.decode(np.unique(np.linspace(0, domain.size - 1, 8).astype(domain.dtype))))
    if (data is None) != (label is None):
        raise InputError("--data and --label go together")
    labels = np.random.default_rng(0).choice(ends, count)
    if data is not None and label is not None:
        table = open_table(data)
        table.require(label, "--label")
        codes = domain.encode(table.read([label]).column(0))
        labels = np.asarray(domain.decode(codes))
    try:
        result = trace(
            function,
            labels,
            epsilon=options["epsilon"],
            delta=options["delta"],
            values=ends,
            pairs=pairs,
            real=data is not None,
        )
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        words = type(error).__name__ if data is not None else f"{type(error).__name__}: {error}"
        raise InputError(f"{program} ended with {words}") from (None if data is not None else error)
    if out is not None:
        with atomic_write(out, private=result.secret) as draft:
            draft.write_text(json.dumps(result.to_json(), indent=2) + "\n", encoding="utf-8")
    click.echo(f"{program}: {TRACED[result.verdict]}\n")
    for finding in result.findings:
        where = f" ({finding.site})" if finding.site else ""
        click.echo(
            f"  {MARKS[False if finding.fails else None]} {finding.sentence[0].upper()}{finding.sentence[1:]}{where}."
        )
    for title, sites in (("Reads labels", result.reads), ("Draws random numbers", result.draws)):
        click.echo(f"  {title}: {', '.join(sorted(sites)) or 'nowhere that was seen'}")
    if result.secret:
        click.echo("Computed from raw labels: this is as secret as they are.")
    else:
        click.echo(f"  Cost on the worst of {result.pairs} pairs: epsilon = {result.epsilon:.6g}")
    sys.exit(_STATUSES[result.verdict])


TRACED = {"holds": "no mistake was found", "fails": "mistakes were found", "unverified": "not everything was checked"}
"""The first line of `labeldp audit program`, by verdict."""


def _function(words: str) -> Any:
    import importlib.util
    from pathlib import Path

    from labeldp.privacy import InputError

    path, _, name = words.rpartition(":")
    if not path or not name.isidentifier():
        raise InputError(f"PROGRAM must be FILE.py:FUNCTION, and is {words!r}")
    if not Path(path).is_file():
        raise InputError(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path} cannot be loaded: {type(error).__name__}: {error}") from None
    if not callable(getattr(module, name, None)):
        raise InputError(f"{path} has no function {name!r}")
    return getattr(module, name)
