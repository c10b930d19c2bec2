"""labeldp certificate, sign."""

from __future__ import annotations

import sys
from typing import Any

import click

from labeldp.cli.options import PATH, flags_in_errors, is_quiet, json_option, quiet_option


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
    help="Compare features and ids of FILE with the records of a model; labels are not read.",
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
@quiet_option
@flags_in_errors()
def certificate(
    path: str,
    form: str,
    delta: str | None,
    signed_by: str | None,
    signature: str | None,
    ledger: str | None,
    data: str | None,
    as_json: bool,
) -> None:
    """Print and verify a certificate, and list the files of a model.

    Checks that PATH has not changed since it was certified and signed. PATH is a directory that fit wrote, or a file or
    folder that release or online run wrote. The certificate in a Parquet file covers the released column alone; any
    other, and a signature, covers every byte. Anyone who can write PATH can write a certificate: without --ledger and
    --signed-by it is unverified, and the first line says so. With --quiet only the certificate and failed checks are
    printed.

    \b
    Ends with status
      0  if the certificate was printed, and no check fails;
      1  if PATH was changed, is not signed as asked, has another certificate
         than the ledger, or was learned from other records than the
         data; it says first what is wrong.
    """
    from labeldp.audit import describe_certificate
    from labeldp.report import render_report

    options: dict[str, Any] = {"signed_by": signed_by, "signature": signature, "ledger": ledger, "data": data}
    options |= {"delta": delta, "render": render_report, "brief": is_quiet()}
    description = describe_certificate(path, "json" if as_json else form, **options)
    for text, err in ((description.aside, True), (description.text, False)):
        if text:
            click.echo(text, err=err)
    if description.failed:
        sys.exit(1)


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
