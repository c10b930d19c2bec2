#!/usr/bin/env python3
"""Verify a certificate of labeldp (docs/specification/certificate.md) with the standard library alone.

    python verify_certificate.py PATH [--signed-by KEY.pub] [--ledger EXPORT] [--epsilon E] [--delta D]

PATH is a model directory, a released folder or a released file, and EXPORT what `labeldp ledger show --json` prints.
The status is 0 if all was checked and holds, 1 if something is wrong, else 2: something was not checked.
"""

import argparse
import base64
import json
import math
import re
from collections import Counter
from contextlib import suppress
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from hashlib import sha256, sha512
from itertools import chain, product
from operator import add
from pathlib import Path

WORDS = {  # the values of two fields of a certificate: of several releases the last value counts
    "trust": ("LOCAL", "CENTRAL", "NONE"),
    "randomness": ("SYSTEM", "KEYED", "DECLARED", "SIMULATION", "NONE"),
}
COVERED = {  # the units whose neighbors are neighbors by another unit, that unit first
    "ONE_USER": ("ONE_USER", "ONE_LABEL"),
    "FULL": ("FULL", "ONE_LABEL"),
    "ONE_LABEL": ("ONE_LABEL",),
    "ONE_LOSS": ("ONE_LOSS", "ZERO_OUT"),
    "ZERO_OUT": ("ZERO_OUT",),
}
FIELDS = {  # of each kind of loss, beside its kind and times
    **{"response": "epsilon classes", "discrete": "losses probabilities", "gaussian": "mu", "failure": "delta"},
    **{"bounded range": "eta", "noisy bag": "weights ratio size noisy records", "largest": "curves"},
    **{"hidden weights": "stretch shrink rows", "switching": "rate redraw batch batches swing chains"},
}
SIGNATURE, MOST_PARTS, MOST_SUMS, MOST = "labeldp signature 1", 16, 1 << 14, 10**18
LISTS = {(2,): 12, (4,): 12, (4, 1): 12, (4, 1, 3, 2): 5, (4, 1, 3, 3): 8, (4, 1, 3, 8): 12, (4, 1, 3, 13): 12}
LISTS |= {(4, 1, 3, 16, 2): 6, (4, 1, 3, 16, 3): 6, (4, 1, 3, 17, 2): 5, (4, 4): 12, (5,): 12, (7,): 12}  # of a footer
STARTS = {".parquet": b"PAR1", ".pq": b"PAR1", ".arrow": b"ARROW1", ".feather": b"ARROW1"}
PRIME, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493  # Ed25519, RFC 8032
CURVE, ROOT = -121665 * pow(121666, -1, PRIME) % PRIME, pow(2, (PRIME - 1) // 4, PRIME)


def require(holds, sentence):
    if not holds:
        raise ValueError(sentence)  # NotImplementedError: not checked


def read(path):
    require(path.is_file() and not path.is_symlink(), f"there is no file {path}, or it is a link; no link is followed")
    return path.read_bytes()


def listed(folder):
    files = [file for file in sorted(folder.rglob("*")) if file.is_symlink() or not file.is_dir()]
    return {file.relative_to(folder).as_posix(): file for file in files}


def read_json(path, raw=None):
    """Return a JSON object that every reader understands alike: no key twice, no infinite number, no half character."""
    once = lambda items: require(len(dict(items)) == len(items), f"{path} has a key twice") or dict(items)  # noqa: E731
    value = json.loads((read(path) if raw is None else raw).decode("utf-8"), object_pairs_hook=once)
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    require(isinstance(value, dict), f"{path} is no JSON object")
    return value


def key_values(raw):
    """Return the pairs in the footer of a Parquet file, if no reader of Thrift's compact protocol sees others."""
    place = 0

    def take(size):
        nonlocal place
        require(size <= len(raw) - place, "its footer is cut")
        place += size
        return raw[place - size : place]

    def number():
        digits = [take(1)[0]]
        while digits[-1] > 127:
            require(len(digits) < 10, "a number in its footer is too long")
            digits.append(take(1)[0])
        return sum((digit & 127) << 7 * index for index, digit in enumerate(digits))

    def value(kind, path):
        require(kind in range(1, 10) or kind == 12, "its footer has a type that no footer has")
        if kind == 9:  # readers ignore the type that a list declares
            kind, count = (head := take(1)[0]) & 15, head >> 4
            count = number() if count == 15 else count
            require(LISTS.get(path) == kind and count <= len(raw) - place, "its footer has a list that no footer has")
            return [value(kind, path) for _ in range(count)]
        if kind == 12:
            return struct(path)
        size = {1: 0, 2: 0, 3: 1, 7: 8}.get(kind)
        size = number() if size is None else size
        return take(size) if kind in (3, 7, 8) else size

    def struct(path):
        fields, last = {}, 0
        while (head := take(1)[0]) != 0:
            require(head > 15 and len(path) < 16, "its footer has fields in an unusual order")
            last += head >> 4
            fields[last] = value(head & 15, (*path, last))
        return fields

    pairs = struct(())[5]
    typed = all([(name, type(text)) for name, text in pair.items()] == [(1, bytes), (2, bytes)] for pair in pairs)
    require(place == len(raw) and typed, "its footer has other bytes or types than a footer")
    return [(pair[1], pair[2]) for pair in pairs]


def parquet_json(path, raw):
    """Return the document under `labeldp.certificate` in the metadata of a Parquet file."""
    start = len(raw) - 8 - int.from_bytes(raw[-8:-4], "little")
    require(raw[-4:] == b"PAR1" and start >= 4, f"{path} has no footer of Parquet")
    texts = [text for key, text in key_values(raw[start:-8]) if key == b"labeldp.certificate"]
    require(len(texts) == 1, f"{path} holds no certificate of labeldp, or two")
    return read_json(path, texts[0])


def is_signed(public, message, signature):
    """Return whether a signature of 64 bytes is of a message, by the owner of a key of 32 bytes."""

    def point(encoded):
        y, sign = int.from_bytes(encoded, "little") & (1 << 255) - 1, encoded[31] >> 7
        square = (y * y - 1) * pow(CURVE * y * y + 1, -1, PRIME) % PRIME
        x = pow(square, (PRIME + 3) // 8, PRIME)
        x = x if x * x % PRIME == square else x * ROOT % PRIME
        require(y < PRIME and x * x % PRIME == square and (x or not sign), "a key or signature is no point of Ed25519")
        return (x if x & 1 == sign else PRIME - x), y

    def plus(one, other):
        both = CURVE * one[0] * other[0] * one[1] * other[1]
        x, y = one[0] * other[1] + other[0] * one[1], one[1] * other[1] + one[0] * other[0]
        return x * pow(1 + both, -1, PRIME) % PRIME, y * pow(1 - both, -1, PRIME) % PRIME

    def multiple(number, one):
        rest = multiple(number >> 1, plus(one, one)) if number else (0, 1)
        return plus(rest, one) if number & 1 else rest

    require(len(public) == 32 and len(signature) == 64, "a key or signature of Ed25519 has another length")
    (x, y), base = point(public), point((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))
    s, k = (int.from_bytes(n, "little") for n in (signature[32:], sha512(signature[:32] + public + message).digest()))
    return s < ORDER and plus(multiple(s, base), multiple(k % ORDER, (PRIME - x, y))) == point(signature[:32])


def check_signature(path, source, signed_by):
    """Check that the owner of a key signed every byte at the path."""
    content, wanted = read_json(source), None
    if signed_by is not None:
        raw = base64.b64decode(b"".join(read(Path(signed_by)).split()[3:-3]), validate=True)
        require(len(raw) == 44 and raw[:12].hex() == "302a300506032b6570032100", f"{signed_by} is no key of Ed25519")
        wanted = raw[12:]
    files, public = content["files"], base64.b64decode(content["public_key"], validate=True)
    require(content["format"] == SIGNATURE, f"{source} is no signature of labeldp")
    require(wanted in (None, public), f"it is signed with another key than {signed_by}: {content['public_key']}")
    message = json.dumps([SIGNATURE, files], sort_keys=True, separators=(",", ":")).encode()
    require(is_signed(public, message, base64.b64decode(content["signature"], validate=True)), f"{source} is forged")
    here = {f"/{name}": sha256(read(file)).hexdigest() for name, file in listed(path).items()}
    beside = {"": path, ".certificate.json": path.with_name(f"{path.name}.certificate.json")}
    here = here or {end: sha256(read(file)).hexdigest() for end, file in beside.items() if file.exists()}
    require(here == files, f"{path} is not what was signed")
    if wanted is None:
        raise NotImplementedError(f"whose key {content['public_key']} is: --signed-by FILE tells")
    return True


def exact(value):
    form = r"-?\d{1,999}(/[1-9]\d{0,999}|(\.\d{1,999})?(e[+-]?\d{1,3})?)"
    require(re.fullmatch(form, str(value), re.ASCII | re.IGNORECASE), "an exact number is damaged")
    return Fraction(str(value))


def lowest(value):
    """Return an exact number of a certificate: a text in lowest terms."""
    require(type(value) is str and str(exact(value)) == value, "an exact number is in another form")
    return Fraction(value)


def parsed_path(value):
    require(
        type(value) is list and all(type(name) is str and type(part) is int and part >= 0 for name, part in value),
        "a part is damaged",
    )
    return tuple((name, part) for name, part in value)


def is_of_a_pair(losses, masses):
    """Whether a finite list is the loss ln(P/Q) of a pair of distributions, with masses of P, rounded up."""
    few = 0 < len(losses) == len(masses) <= 4096 and min(masses) >= 0 and max(map(abs, losses)) <= 2000
    few = few and math.lcm(*(mass.denominator for mass in masses)) < 1 << 8192
    if not few or not 1 <= sum(masses) <= 1 + 2.0**-40:
        return False
    second = sum(mass for loss, mass in zip(losses, masses, strict=True) if not loss)
    with localcontext() as context:
        context.prec = 90
        for loss, mass in ((loss, mass) for loss, mass in zip(losses, masses, strict=True) if loss and mass):
            power = Fraction((Decimal(-loss.numerator) / loss.denominator).exp()) * (1 + Fraction(1, 10**80))
            second += Fraction(math.ceil(mass * power * (1 << 256)), 1 << 256)
    return second <= 1


def parsed_loss(value):
    """Return how often each atom of a loss occurs: (kind, its number, its other parameters)."""
    [row], atoms = value, Counter()
    require(type(value) is type(row) is list, "a loss is damaged")
    for part in row:
        kind, least, most, other = part["kind"], Fraction(1, MOST**20), MOST, None
        for atom in ({name: part[name] for name in part if name != "times"}, *part.get("curves", ())):
            require(atom.keys() == {"kind", *FIELDS[atom["kind"]].split()}, "a loss has fields that no loss has")
        if kind in ("response", "bounded range"):
            most = 1000
            number, other = lowest(part["epsilon" if kind == "response" else "eta"]), part.get("classes")
        elif kind == "gaussian":
            number = Fraction(float.fromhex(part["mu"]))
            require(float(number).hex() == part["mu"], "an exact number is in another form")
        elif kind == "failure":
            number, least, most = lowest(part["delta"]), 0, 1
        else:
            number, least = 1, 1
            if kind == "discrete":
                losses, masses = (list(map(lowest, part[name])) for name in ("losses", "probabilities"))
                require(is_of_a_pair(losses, masses), "a discrete loss is that of no pair of distributions")
                number, least = max(losses), 0
            other = json.dumps([part[name] for name in sorted(part) if name != "times"])
        counts = (part["times"], *((other, other - 1) if kind == "response" else ()))
        whole = all(type(n) is int and 0 < n <= MOST for n in counts) and part["times"] <= 10**12
        require(whole and least <= number <= most, "a loss is damaged")
        atoms[kind, number, other] += part["times"]
    require(len(atoms) == len(row), "a loss has an atom twice")
    return atoms


class Charge:
    """One charge of a certificate, and the block that it is in: its release alone, or a declared plan."""

    def __init__(self, value):
        plan, named = value.get("plan", self), isinstance(value["mechanism"]["mechanism"], str)
        self.path, self.loss, self.block = parsed_path(value["path"]), parsed_loss(value["loss"]), value["id"]
        self.account, self.budgets = value.get("account", ""), [tuple(map(lowest, b)) for b in value.get("budgets", ())]
        self.unit, self.keeps, facts = value["unit"], value.get("keeps"), value.get("facts", {})
        named = named and {type(text) for text in (self.block, self.account, *facts.values())} == {str}
        named = named and self.unit in COVERED and bool(self.account) == bool(self.budgets) == ("keeps" in value)
        named = named and (not self.account or self.keeps in COVERED[self.unit])
        require(named and all(epsilon > 0 <= delta < 1 for epsilon, delta in self.budgets), "a charge is damaged")
        self.fits = within(self.loss, *map(max, zip(*self.budgets, strict=True))) if self.budgets else True
        require(self.fits is not False, "a charge costs more than its budgets")
        self.steps = [(self.path, self.loss, 1)]
        if plan is not self:
            self.steps = [(parsed_path(path), parsed_loss(loss), times) for path, loss, times in plan["steps"]]
            steps = tuple((path, frozenset(loss.items()), times) for path, loss, times in self.steps)
            self.block = (plan["name"], plan["unit"], steps)
            whole = all(type(times) is int and 0 < times <= MOST for _, _, times in self.steps)
            whole = whole and type(plan["name"]) is str and plan["unit"] == self.unit
            require(whole and any(self.takes(*step[:2]) for step in self.steps), "a charge is no step of its plan")

    def takes(self, path, loss):
        """Whether it may be a step: about its records or some of them, at its cost or a smaller pure one."""
        below = loss.total() == 1 and all(atom[0] == "response" and atom[2] == 2 for atom in loss)
        below = below and largest(self.loss) <= largest(loss)
        return self.path[: len(path)] == path and (self.loss == loss or below)


def largest(loss):
    """Return the exact pure epsilon of a loss; infinite where there is none."""
    finite = [(atom, times) for atom, times in loss.items() if atom[:2] != ("failure", 0)]
    pure = all(atom[0] in ("response", "discrete", "bounded range") for atom, _ in finite)
    return sum((times * atom[1] for atom, times in finite), Fraction(0)) if pure else math.inf


def up(value):
    return near if (near := float(value)) == math.inf or Fraction(near) >= value else math.nextafter(near, math.inf)


def epsilon_of(loss, delta):
    """Return the smallest epsilon of a loss at a delta, rounded up: Gaussian, responses and failures if delta > 0."""
    masses, square, most = Counter({Fraction(0): 1.0}), Fraction(0), delta
    if delta == 0:
        return up(largest(loss))
    for (kind, number, size), times in loss.items():
        if kind not in ("gaussian", "failure", "response") or times * (kind == "response") * len(masses) > MOST_SUMS:
            raise NotImplementedError(f"the arithmetic of {times} losses of the kind {kind!r} at a delta above 0")
        square += times * number**2 if kind == "gaussian" else 0
        most -= times * number if kind == "failure" else 0
        for _ in range(times if kind == "response" else 0):
            keep, sums = 1 / (1 + (size - 1) * math.exp(-number)), Counter()
            lie = keep * math.exp(-number)
            for value, mass in masses.items():
                sums += {value + number: mass * keep, value - number: mass * lie, value: mass * (size - 2) * lie}
            masses = sums
    mu, low, high = math.sqrt(up(square)) * (1 + 1e-15), 0.0, 2.0**20
    finite = up(largest({atom: times for atom, times in loss.items() if atom[0] != "failure"}))

    def delta_at(epsilon):  # Balle and Wang 2018, Theorem 8, at every loss of the responses
        total = 1e-300
        for value, mass in ((float(value), mass * (1 + 1e-11)) for value, mass in masses.items()):
            gap = epsilon - value - 1e-15 * (epsilon + abs(value))
            at = [gap / mu - mu / 2, gap / mu + mu / 2] if mu else [math.copysign(math.inf, gap)] * 2
            tails = [math.erfc(deviation / math.sqrt(2)) / 2 for deviation in at]
            missed = math.exp(gap) * tails[1] if gap < 700 else 0.0
            total += mass * max(0.0, tails[0] * (1 + 1e-12) - missed * (1 - 1e-12))
        return Fraction(total)

    if most < 0 or delta_at(high) > most:
        return finite if most >= 0 else math.inf
    while high - low > 1e-12 * high and high > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= most else (middle, high)
    return min(high, finite)


def within(loss, epsilon, delta):
    """Whether a budget covers a loss, up to rounding; None where only parts of it are computed, which do not tell."""
    finite = {atom: times for atom, times in loss.items() if atom[0] != "failure"}
    failed = sum((times * atom[1] for atom, times in loss.items() if atom[0] == "failure"), Fraction(0))
    if delta == 0 or (failed <= delta and largest(finite) <= epsilon):
        return delta > 0 or largest(loss) <= epsilon
    for kind, eta, other in loss:  # lower ends of what is not composed here
        _, losses, masses = json.loads(other) if kind == "discrete" else (kind, (), ())
        gains = [
            (mass, -math.expm1(min(0, epsilon - Fraction(value)))) for value, mass in zip(losses, masses, strict=True)
        ]
        least = sum(float(Fraction(mass)) * gain for mass, gain in gains)
        if kind == "bounded range":
            least = math.expm1(min(0, epsilon - eta) / 2) ** 2 / -math.expm1(-eta)
        if least * (1 - 1e-9) > delta:
            return False
    for part in (loss, {atom: n for atom, n in loss.items() if atom[0] in ("gaussian", "failure", "response")}):
        with suppress(NotImplementedError):
            if epsilon_of(part, delta) > epsilon * (1 + 1e-9) + 1e-9:
                return False
            return True if part is loss else None
    return None


def joint(counted, zero=0, both=add, worst=max):
    """Return the cost of the record that pays most: parts of one split do not add up, different splits do."""
    costs, splits = [cost for path, cost in counted if not path], {}
    for path, cost in ((path, cost) for path, cost in counted if path):
        splits.setdefault(path[0][0], {}).setdefault(path[0][1], []).append((path[1:], cost))
    costs += [worst([joint(inner, zero, both, worst) for inner in parts.values()]) for parts in splits.values()]
    return reduce(both, costs, zero)


def suffices(block):
    """Whether the charges can take steps of their plan in their order, as in an account."""
    taken = [[] for _ in block[0].steps]
    for charge in block:
        ranks = [(-len(path), loss != charge.loss, largest(loss)) for path, loss, _ in charge.steps]
        for number in sorted(range(len(ranks)), key=ranks.__getitem__):
            path, loss, times = charge.steps[number]
            if charge.takes(path, loss) and joint([*taken[number], (charge.path, 1)]) <= times:
                taken[number].append((charge.path, 1))
                break
        else:
            return False
    return True


def blocked(charges):
    """Return the charges that cost something; each is a block alone if those of its plan do not suffice."""
    blocks = {}
    for charge in (charge for charge in charges if charge.loss):
        blocks.setdefault(charge.block, []).append(charge)
    for charge in chain(*(block for block in blocks.values() if not suffices(block))):
        charge.block, charge.steps = charge, [(charge.path, charge.loss, 1)]
    return [*chain(*blocks.values())]


def guarantee(charges, delta):
    """Return the largest epsilon of the records: that of their one block, or else a sum, or the sum of budgets."""

    def meet(one, other):
        return next((a[0] != b[0] for a, b in zip(one, other, strict=False) if a != b), True)  # unlike parts of a split

    def of_group(group):
        if len({charge.block for charge in group}) == 1:
            steps = [(path, [Counter({a: n * times for a, n in loss.items()})]) for path, loss, times in group[0].steps]
            if len({path for path, _ in steps}) > MOST_PARTS:
                raise NotImplementedError("the arithmetic of a plan of so many parts of the records")
            both = lambda one, other: [x + y for x, y in product(one, other)]  # noqa: E731
            losses = joint(steps, [Counter()], both, lambda parts: [*chain(*parts)])
            return max(epsilon_of(loss, delta) for loss in losses)
        epsilon = up(joint([(charge.path, largest(charge.loss)) for charge in group]))
        accounts = {charge.account for charge in group}
        budgets = {(charge.account, budget): budget for charge in group for budget in charge.budgets}.values()
        budgets = [tuple(map(max, zip(*budgets, strict=True)))] if len(accounts) == 1 and budgets else budgets
        limit, share = (sum((budget[i] for budget in budgets), Fraction(0)) for i in (0, 1))
        if "" in accounts or share > delta or up(limit) >= epsilon:
            return epsilon
        if not all(charge.fits for charge in group):
            raise NotImplementedError("whether every charge is within the budgets that it states")
        return up(limit)

    groups = []
    for charge in blocked(charges):
        near = [g for g in groups if any(meet(a[0], b[0]) for c in g for a, b in product(charge.steps, c.steps))]
        groups = [group for group in groups if group not in near] + [[charge, *chain(*near)]]
    return max(map(of_group, groups), default=0.0)


def stated_unit(charges):
    """Return the largest unit that the costs are for: of several blocks, what the accounts keep counts, too."""
    units = {charge.unit for charge in charges}
    if len({charge.block for charge in blocked(charges)}) > 1:
        units |= {charge.keeps for charge in charges if charge.account}
    common = [unit for unit in COVERED if all(unit in COVERED[other] for other in units)]
    require(common, f"no guarantee is for {' and '.join(sorted(units))} together")
    return common[0]


def load(path):
    """Return the certificate at a path, its charges, the SHA-256 of files that it covers, and what it leaves out."""
    files, beside = listed(path), path.with_name(f"{path.name}.certificate.json")
    named = {name for name in files if name.casefold() in ("certificate.json", "_certificate.json")}
    require(len(named) < 2 and all(map(str.islower, named)), f"{path} has two certificates, or one under another name")
    if "_certificate.json" in files:
        document = read_json(files.pop("_certificate.json"))
        stated = {name: part["sha256"] for name, part in document["parts"].items()}
        files = {name: file for name, file in files.items() if not re.search(r"(^|/)[_.]", name) or name == "_SUCCESS"}
        require(stated.keys() | {"_SUCCESS"} == files.keys(), f"{path} has other parts than its certificate")
    elif files:
        document = read_json(path / "certificate.json")
        stated, covered = document["files"], files.keys() & {"model.json", "model.skops", "summary.json", "report.html"}
        require(covered == stated.keys() and len(covered - {"report.html"}) == 3, f"{path} lacks certified files")
    elif (raw := read(path))[:4] == b"PAR1":
        require(not beside.exists() and not beside.is_symlink(), f"{path} has two certificates: in it, and {beside}")
        document, stated = parquet_json(path, raw), {}
    else:
        require(raw.startswith(STARTS.get(path.suffix.lower(), b"")), f"{path} is not of the kind that its name says")
        document, files = read_json(beside), {"": path}
        stated = {"": document["sha256"]}
    certificate = document["certificate"]
    lists = certificate["assumptions"], certificate.get("cohorts", [])
    texts = [certificate["dataset"], certificate["published"], *(text for values in lists for text in values)]
    texts += [delta for charge in certificate["entries"] if (delta := charge["mechanism"].get("delta")) is not None]
    whole = {type(values) for values in lists} == {list} and {type(text) for text in texts} == {str}
    whole = whole and document["format"] == 1 and all(certificate[name] in values for name, values in WORDS.items())
    whole = whole and certificate["neighbors"] in COVERED
    require(whole and certificate["entries"], "the certificate is damaged, or lists no charge and certifies no release")
    covered = {files[name]: digest for name, digest in stated.items()}
    more = (files.keys() or {"the values of a Parquet file"}) - stated.keys() - {"certificate.json", "_SUCCESS"}
    require(len({v["id"] for v in certificate["entries"]}) == len(certificate["entries"]), "a charge occurs twice")
    charges = [Charge(value) for value in certificate["entries"]]
    require(certificate["neighbors"] in COVERED[stated_unit(charges)], "its charges protect less than it states")
    return certificate, charges, covered, more


def check_summary(path, certificate, charges):
    """Compare the numbers in the summary of a model with those of its certificate."""
    summary, digest = (
        read_json(path / "summary.json"),
        sha256(json.dumps(certificate, sort_keys=True).encode()).hexdigest(),
    )
    rows, run = summary["certificate"], summary["budget"]["run"]
    same = summary["certificate_digest"] == digest and summary["dataset"] == certificate["dataset"]
    require(same and len(rows) == len(charges), "the summary is of another certificate")
    pairs = [(row, epsilon_of(charge.loss, exact(row["delta"]))) for row, charge in zip(rows, charges, strict=True)]
    for row, epsilon in [*pairs, (run, guarantee(charges, exact(run["delta"])))]:
        require(row["epsilon"] >= epsilon * (1 - 1e-9), f"the summary states less than epsilon = {epsilon}")
        if row["epsilon"] > epsilon * (1 + 1e-6):
            raise NotImplementedError(f"why the summary states more than epsilon = {epsilon}")


def joined(several):
    union = {name: max((one[name] for one in several), key=values.index) for name, values in WORDS.items()}
    union["dataset"] = " and ".join(dict.fromkeys(one["dataset"] for one in several))
    union["published"] = {phrase for one in several for phrase in one["published"].split(" + ")}
    parts = all(one.get("cohorts") for one in several)
    return union | {"cohorts": {name for one in several for name in one["cohorts"]} if parts else set()}


def check_ledger(certificate, path, signed, is_model):
    """Compare all that a certificate states with an export of its ledger."""
    export, request = read_json(path), json.loads(json.dumps(certificate["request"]))
    require(export["format"] == "labeldp ledger export 1", f"{path} is no export of a ledger")
    releases = [release["certificate"] for data in export["datasets"].values() for release in data["releases"]]
    ids = [entry["id"] for entry in certificate["entries"]]
    own = [release for release in releases if release["entries"][0]["id"] in ids]
    same = all(release["entries"][0] in certificate["entries"] for release in own)
    require(same and len(own) == len(ids), "its charges are not in the ledger as certified")
    same = certificate["neighbors"] == stated_unit([Charge(value) for value in certificate["entries"]])
    require(same and joined(own) == joined([certificate]), "the ledger states otherwise than the certificate")
    conditions, stated = {text for release in own for text in release["assumptions"]}, {*certificate["assumptions"]}
    require(conditions == stated or (is_model and conditions < stated), "the ledger has other conditions")
    request.pop("version", None)
    request["source"].pop("name", None)
    for file in request.get("files", {}).values():
        file["name"] = ""
    asked = sha256(json.dumps({k: v for k, v in request.items() if v}, sort_keys=True).encode()).hexdigest()
    fits = (request["scope"]["dataset"], request["kind"] == "fit") == (certificate["dataset"], is_model)
    require(fits and asked in export["requests"], "the ledger was not asked what the certificate says")
    if conditions < stated and not signed:
        raise NotImplementedError(f"conditions that no ledger has: {'; '.join(sorted(stated - conditions))}")


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda message: parser.exit(1, f"{message}\n")
    parser.add_argument("path", type=Path)
    for name in ("--signed-by", "--ledger", "--epsilon", "--delta"):
        parser.add_argument(name, default=MOST if name == "--epsilon" else None)
    given, kinds, signed = parser.parse_args(words), [], False
    path, signature = given.path, Path(f"{given.path}.signature")

    def check(what, function, *arguments):
        value, kind = None, "holds"
        try:
            value = function(*arguments)
        except Exception as error:  # of whatever kind: what is damaged is wrong
            kind = "not checked" if isinstance(error, NotImplementedError) else "WRONG"
            what = f"{what}: {error if type(error) in (NotImplementedError, ValueError) else repr(error)}"
        sentence = f"{kind}: {what}{': ' + value if isinstance(value, str) else ''}"[:500]
        print(sentence.encode("ascii", "backslashreplace").decode().replace("\n", " "))
        kinds.append(kind)
        return value

    def unchanged():
        for file, stated in covered.items():
            require(sha256(read(file)).hexdigest() == stated, f"{file} is not what was certified")
        if more and not signed:
            raise NotImplementedError(f"what only a signature covers: {', '.join(sorted(more))}")

    def guaranteed():
        secret = certificate["trust"] != "NONE" and certificate["randomness"] not in ("SIMULATION", "NONE")
        deltas = [charge["mechanism"].get("delta") or "0" for charge in certificate["entries"]]
        delta = exact(given.delta) if given.delta is not None else max(map(exact, deltas))
        epsilon = guarantee(charges, delta)
        require(secret and 0 <= delta <= 1 and epsilon < math.inf, f"nothing is guaranteed at delta = {float(delta)}")
        require(Fraction(epsilon) <= exact(given.epsilon) * Fraction(1 + 1e-12), f"epsilon = {epsilon} is more")
        return f"{certificate['neighbors']}: epsilon = {epsilon}, delta = {float(delta)}"

    if (content := check(f"{path} has a certificate", load, path)) is not None:
        certificate, charges, covered, more = content
        if signature.exists() or given.signed_by is not None:
            signed = check("every byte is signed", check_signature, path, signature, given.signed_by) is True
        check("the files are those that were certified", unchanged)
        check("the guarantee", guaranteed)
        if path / "summary.json" in covered:
            check("the summary states the same numbers", check_summary, path, certificate, charges)
        if given.ledger is not None:
            check("the ledger", check_ledger, certificate, Path(given.ledger), signed, path / "summary.json" in covered)
        if not signed:
            print("not checked: who certified it, and whether the values are those that were released")
    return 1 if "WRONG" in kinds else 2 if "not checked" in kinds or not signed else 0


if __name__ == "__main__":
    raise SystemExit(main())
