"""labeldp certificate, sign."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from labeldp.cli.options import PATH, flags_in_errors, json_option

if TYPE_CHECKING:  # rooms are imported when a command needs them
    from labeldp.fit import Check


@click.command(
    epilog="\b\nExamples:\n  labeldp certificate model\n  labeldp certificate noisy.parquet\n"
    "  labeldp certificate model --signed-by them.pem.pub\n"
)
@click.argument("path", type=PATH)
@click.option(
    "--delta", metavar="NUMBER", help="The delta at which the guarantee is read; by default the one it was made for."
)
@click.option(
    "--signed-by", type=PATH, metavar="FILE", help="A public key (Ed25519, PEM); PATH must be signed by its owner."
)
@click.option("--signature", type=PATH, metavar="FILE", help="The signature; by default PATH.signature.")
@click.option(
    "--ledger",
    type=PATH,
    metavar="FILE",
    help="Compare the whole certificate, and commitments to labels, with the ledger.",
)
@click.option(
    "--data",
    type=PATH,
    metavar="FILE",
    help="Compare features and ids of FILE with those of a model; labels are not read.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "opendp", "pld"]),
    default="text",
    help="text; json; opendp, a draft for the OpenDP deployments registry (YAML); or pld, privacy loss distributions "
    "for dp-accounting (JSON).",
)
@json_option
@flags_in_errors()
def certificate(
    path: str,
    form: str,
    as_json: bool,
    delta: str | None,
    signed_by: str | None,
    signature: str | None,
    ledger: str | None,
    data: str | None,
) -> None:
    """Print and verify a certificate; of a model, list its files and types.

    Checks whether PATH still is what was certified and signed. PATH is a directory that fit wrote, or a file or
    folder that release or online run wrote. The certificate in a Parquet file covers the released column alone; any
    other, and a signature, covers every byte. Whoever can write PATH can write a certificate: without --ledger and
    --signed-by it is unverified, and the first line says so.

    \b
    Ends with status
      0  if the certificate was printed, and no check fails;
      1  if PATH was changed, is not signed as asked, has another certificate
         than the ledger, or was learned from other records than those of the
         data; it says first what is wrong.
    """
    from labeldp.audit import Contents, check_signature, format_certificate
    from labeldp.fit import Check, check_charges, check_records, check_summary, verify
    from labeldp.report import render_report

    verdict, signed = verify(path), check_signature(path, signature=signature, signed_by=signed_by)
    summary = check_summary(path, render_report) if verdict.holds else None
    charges = check_charges(verdict.certificate, ledger, fit=summary is not None) if ledger else None
    compared = check_records(path, data) if data and verdict.holds else None
    vouched, contents = signed if charges is None or signed.holds is not None else None, Contents.of(path)
    held = contents.check() if contents else None
    results = (Check(verdict.holds, verdict.sentence), vouched, charges, summary, compared, held)
    checks = worst_first(check for check in results if check is not None)
    failed, at = any(check.holds is False for check in checks), verdict.delta if delta is None else delta
    form = "json" if as_json else form
    for check in checks if form != "json" else ():
        if not check.holds:
            click.echo(check.sentence, err=form != "text")
    if form == "json" or (form != "text" and not failed):
        click.echo(format_certificate(verdict.certificate, form, delta=at, checks=checks, contents=contents))
    if form != "text":
        sys.exit(1 if failed else 0)
    click.echo(verdict.certificate.at(float(verdict.delta) if delta is None else delta))
    for charge in verdict.certificate.entries:
        if charge.history:
            click.echo(charge.history)
    for check in checks:
        if check.holds:
            click.echo(check.sentence)
    if contents:
        click.echo(contents)
    if failed:
        sys.exit(1)


def worst_first(checks: Iterable[Check]) -> list[Check]:
    """Return checks that fail, then those that are unverified, then those that hold."""
    return sorted(checks, key=lambda check: (False, None, True).index(check.holds))


@click.command(
    epilog="\b\nExamples:\n  labeldp sign model --key me.pem --new-key\n  labeldp sign noisy.parquet --key me.pem\n"
)
@click.argument("path", type=PATH)
@click.option("--key", required=True, type=PATH, metavar="FILE", help="A private key (Ed25519, PEM).")
@click.option("--new-key", is_flag=True, help="First create the key, and the public key in FILE.pub.")
@click.option("--out", type=PATH, metavar="FILE", help="Where the signature is written; by default PATH.signature.")
@flags_in_errors()
def sign(path: str, key: str, new_key: bool, out: str | None) -> None:
    """Sign a model or release.

    PATH is what `labeldp certificate` takes, and must still be what was certified. Give the public key to
    readers by another way than the file, and keep the private one. `labeldp certificate PATH --signed-by FILE`
    checks both.
    """
    from labeldp.audit import make_key, sign_files

    if new_key:
        make_key(key)
    target, public = sign_files(path, key, out)
    click.echo(f"Signed with the key {public}: {target}")
