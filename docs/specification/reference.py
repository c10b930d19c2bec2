"""Local mechanisms once more, record by record, from their specification alone: no code of labeldp, no NumPy."""

import hashlib
import hmac
import json
import sys
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

getcontext().prec = 80


def derive(key: bytes, *parts: bytes) -> bytes:
    text = b"".join(len(part).to_bytes(8, "little") + part for part in (b"labeldp", *parts))
    return hmac.digest(key, text, "sha256")


def pair(key: bytes, name: bytes, counter: int) -> tuple[int, int]:
    block = name + counter.to_bytes(16 - len(name), "little")
    answer = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(block)
    return int.from_bytes(answer[:8], "little"), int.from_bytes(answer[8:], "little")


def lie(epsilon: Fraction, size: int) -> int:
    power = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
    return int((Decimal(2**64) / (power + size - 1)).to_integral_value("ROUND_CEILING"))


def respond(code: int, word: int, size: int, below: int) -> int:
    return (code + 1 + word // below) % size if word < (size - 1) * below else code


def groups_of(seed: str, record: int | str, classes: int, groups: int) -> list[int]:
    key = hashlib.sha256(f"labeldp partition, version 1, {kind(record)}".encode() + bytes.fromhex(seed)).digest()
    words = [pair(key, named(record, b""), k // 2)[k % 2] >> 16 for k in range(classes)]
    places = sorted(range(classes), key=lambda k: (words[k], k))
    return [places.index(k) % groups for k in range(classes)]


def kind(record: int | str) -> str:
    return "integer" if isinstance(record, int) else "text"


def named(record: int | str, key: bytes) -> bytes:
    if isinstance(record, int):
        return (record % 2**64).to_bytes(8, "little")
    return hashlib.blake2b(record.encode(), digest_size=12, key=key).digest()


def answer(mechanism: dict, key: bytes, context: bytes, record: int | str, label: object) -> list:
    """Return the classes that a client answers."""
    classes, epsilon = mechanism["domain"]["classes"], Fraction(mechanism["epsilon"])
    size, code = len(classes), classes.index(label)
    law = hashlib.sha256(json.dumps(mechanism, sort_keys=True).encode()).digest()
    release = derive(derive(key, b"context", context), b"context", law)
    name, words = named(record, derive(release, b"ids")), derive(release, b"words", kind(record).encode())
    if mechanism["mechanism"] == "UnaryEncoding":
        flips = [pair(words, name, j // 2)[j % 2] < lie(epsilon / 2, 2) for j in range(size)]
        return [each for j, each in enumerate(classes) if (j == code) != flips[j]]
    groups = list(range(size))
    if mechanism["mechanism"] == "LocalHashing":
        groups = groups_of(mechanism["seed"], record, size, mechanism["number_of_groups"])
    count = max(groups) + 1
    told = respond(groups[code], pair(words, name, 0)[0], count, lie(epsilon, count))
    return [each for j, each in enumerate(classes) if groups[j] == told]


if __name__ == "__main__":
    wrong = 0
    for each in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        key, context = bytes.fromhex(each["key"]), bytes.fromhex(each["context"])
        for row in each["records"]:
            wrong += answer(each["mechanism"], key, context, row["id"], row["label"]) != row["answer"]
    sys.exit(f"{wrong} vectors differ" if wrong else None)
