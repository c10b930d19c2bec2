"""Detached signatures: who vouches for a model or a released file."""

import base64
import json
import os
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from labeldp.fit import verify, write_json
from labeldp.privacy import InputError, json_value
from labeldp.releases import Check
from labeldp.tables import CERTIFICATE_SUFFIX, file_digest

FORMAT = "labeldp signature 1"
SUFFIX = ".signature"
PUBLIC_SUFFIX = ".pub"


def make_key(path: str) -> None:
    """Write a new private key of Ed25519 to `path`, readable by its owner alone, and the public one to `path`.pub.

    Raises:
        InputError: one of the files exists, or cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for file_path in (path, path + PUBLIC_SUFFIX):
        if os.path.lexists(file_path):
            raise InputError(f"{file_path} exists: a new key needs a new name")
    try:
        for file_path, content, mode in ((path, private, 0o600), (path + PUBLIC_SUFFIX, public, 0o644)):
            with os.fdopen(os.open(file_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
                file.write(content)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def sign_files(path: str, key: str, out: str | None = None) -> tuple[str, str]:
    """Sign all files of a model, or a released file or folder, with Ed25519.

    Args:
        path: what is signed; it must still be what was certified.
        key: a private key in PEM form.
        out: where the signature is written; by default `path`.signature.

    Returns:
        The place of the signature, and the public key in base64.

    Raises:
        InputError: it is not what was certified, the key cannot be used, or another file stands at the place.
    """
    verdict, secret = verify(path), _private_key(key)
    if not verdict.holds:
        raise InputError(f"{verdict.sentence} It was not signed.")
    files, public = _digests(path), _text(secret.public_key().public_bytes_raw())
    content = {"format": FORMAT, "files": files, "public_key": public, "signature": _text(secret.sign(_message(files)))}
    target = Path(f"{Path(path)}{SUFFIX}" if out is None else out)
    if os.path.lexists(target):
        _read(target)  # a file that is no signature is left as it is
    try:
        write_json(target, content)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror}") from error
    return str(target), public


def check_signature(path: str, *, signature: str | None = None, signed_by: str | None = None) -> Check:
    """Check the signature of a model, or of a released file or folder. It covers every byte of values and certificate.

    Args:
        path: what was signed.
        signature: the signature; by default `path`.signature.
        signed_by: a public key in PEM form, of whom it should be.

    Returns:
        What the signature says. `holds` is None where `signed_by` was not given: anybody can sign with a new key.

    Raises:
        InputError: the signature or the public key cannot be read.
    """
    wanted = None if signed_by is None else _text(_public_key(signed_by).public_bytes_raw())
    source = Path(f"{Path(path)}{SUFFIX}" if signature is None else signature)
    if source.is_symlink():
        return Check(False, f"{path} is NOT known to be signed: {source} is a link, which is not followed.")
    if not source.is_file():
        if signature is None and signed_by is None:
            return Check(None, f"Unverified: the certificate of {path} is unsigned and was not checked.")
        return Check(False, f"{path} is NOT signed by {signed_by or 'anybody'}: there is no file {source}.")
    files, public, signed = _read(source)
    if wanted not in (None, public):
        return Check(False, f"{path} is NOT signed by {signed_by}, but with the key {public}.")
    try:
        key, signed_bytes = (base64.b64decode(text, validate=True) for text in (public, signed))
        Ed25519PublicKey.from_public_bytes(key).verify(signed_bytes, _message(files))
    except (InvalidSignature, ValueError):
        return Check(False, f"{source} is NOT a signature with the key {public}: it was changed afterwards.")
    digests = _digests(path)
    changed = [name for name in sorted({*files, *digests}) if files.get(name) != digests.get(name)]
    if changed:
        named = ", ".join(name.lstrip("/") or "it" for name in changed)
        return Check(False, f"{path} is NOT what was signed: {named} changed.")
    if signed_by is not None:
        return Check(True, f"Signed by {signed_by}.")
    return Check(
        None,
        f"Unverified: the certificate was not checked. {path} is signed with the key {public}; --signed-by FILE checks "
        "whose key that is.",
    )


def _digests(path: str) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder, or of a file and the certificate next to it, by what follows `path`.

    The names do not hold `path`, so what was signed may be moved. A link has no digest: it is never what was signed.
    """
    signed = Path(path)
    if signed.is_dir():
        files = {f"/{file.relative_to(signed).as_posix()}": file for file in sorted(signed.rglob("*"))}
    else:
        files = {end: Path(f"{signed}{end}") for end in ("", CERTIFICATE_SUFFIX)}
    digests = {name: "" if file.is_symlink() else file_digest(file) for name, file in files.items()}
    return {name: digest for name, digest in digests.items() if digest is not None}


def _message(files: dict[str, str]) -> bytes:
    return json.dumps([FORMAT, files], sort_keys=True, separators=(",", ":")).encode()


def _read(source: Path) -> tuple[dict[str, str], str, str]:
    """Return digests, public key and signature of a file."""
    try:
        content: Any = json_value(source.read_text(encoding="utf-8"))
        files, public, signed = content["files"], content["public_key"], content["signature"]
        texts = [public, signed, *files, *files.values()]
        if content["format"] == FORMAT and all(isinstance(text, str) for text in texts):
            return files, public, signed
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(f"{source} is no signature of labeldp")


def _private_key(path: str) -> Ed25519PrivateKey:
    content = _content(path, "; --new-key makes one")
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it has a passphrase
        raise InputError(f"{path} is no private key of Ed25519 in PEM form without a passphrase") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} is no private key of Ed25519 in PEM form without a passphrase")
    return key


def _public_key(path: str) -> Ed25519PublicKey:
    content = _content(path)
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} is no public key of Ed25519 in PEM form") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path} is no public key of Ed25519 in PEM form")
    return key


def _content(path: str, otherwise: str = "") -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}{otherwise}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
