"""A grey-box audit: run a program on neighboring labels with the same randomness, and compare what happens inside."""

import io
import logging
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from labeldp.audit.outputs import Leaves, Reader, read_state
from labeldp.curator import Curator
from labeldp.mechanisms import MECHANISMS, Mechanism
from labeldp.privacy import (
    Charge,
    InputError,
    PrivacyLoss,
    RecordLoss,
    check_integer,
    decimal,
    total_loss,
)

FALSE_ALARM = 1e-9
"""The probability that an output without noise is reported of a program that keeps its claim."""

MOST_RUNS = 400
"""Runs with other randomness, at most, that tell an output without noise from a noisy one."""

ROUNDING = 2.0**-44
"""Sums of floating point numbers may be off by this share of the larger one."""

PACKAGE = str(Path(__file__).parents[1])

Program = Callable[[Any, np.random.Generator], Any]


@dataclass(frozen=True)
class Event:
    """One call that draws noise for values that depend on labels.

    Args:
        kind: of the noise, such as "laplace", or the name of a mechanism.
        site: file and line of the program.
        parameters: values that must not depend on labels: scale, shape, specification.
        value: what noise is added to, or the codes that a mechanism takes. It is secret.
        output: what came out.
        noise: which draw was used; None for mechanisms, which draw themselves.
        loss: what one answer of a mechanism costs.
        charged: whether a curator charged it.
    """

    kind: str
    site: str
    parameters: Any
    value: Any = field(repr=False)
    output: Any = field(repr=False)
    noise: int | None = None
    loss: PrivacyLoss | None = None
    charged: bool = False


@dataclass(frozen=True)
class Primitive:
    """A function of another library that adds noise, and what it declares.

    Args:
        owner: the module or the class that has it.
        name: of the function.
        declares: takes the arguments of a call and returns (value, sensitivity, loss): what noise is added to, by how
            much that moves at most in the sum of absolute values, and what the call costs at that.
    """

    owner: Any
    name: str
    declares: Callable[..., tuple[Any, float, PrivacyLoss]]


@dataclass(frozen=True)
class Finding:
    """A mistake, or what could not be checked.

    Args:
        kind: "raw output", "sensitivity", "noise", "noise reused", "budget", "control flow", "parameters" or
            "randomness".
        sentence: what is wrong, without a value of a label.
        site: file and line; empty where it is the whole program.
        fails: whether it is certainly a mistake.
    """

    kind: str
    sentence: str
    site: str = ""
    fails: bool = True


@dataclass(frozen=True)
class Trace:
    """What a program did with labels.

    Args:
        findings: mistakes first.
        reads: file and line of each call that read labels, with how often.
        draws: file and line of each call that drew random numbers, with how often.
        events: kind, site, largest measured sensitivity and cost of each call that drew noise. Secret with real labels.
        epsilon: the cost of the whole program on the worst pair, at the delta of the claim.
        claim: epsilon and delta that were claimed.
        pairs: how many pairs of neighbors were compared.
        secret: whether it was computed from real labels.
    """

    findings: tuple[Finding, ...]
    reads: Mapping[str, int]
    draws: Mapping[str, int]
    events: tuple[Mapping[str, Any], ...] = field(repr=False)
    epsilon: float = field(repr=False)
    claim: tuple[float, float]
    pairs: int
    secret: bool

    @property
    def verdict(self) -> str:
        """ "fails", "unverified" where something could not be checked, or "holds" on all pairs that were compared."""
        if any(finding.fails for finding in self.findings):
            return "fails"
        return "unverified" if self.findings else "holds"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values: as secret as the labels where `secret` says so."""
        return {
            "verdict": self.verdict,
            "claim": {"epsilon": self.claim[0], "delta": self.claim[1]},
            "epsilon": self.epsilon,
            "pairs": self.pairs,
            "findings": [vars(finding) for finding in self.findings],
            "reads": dict(self.reads),
            "draws": dict(self.draws),
            "events": [dict(event) for event in self.events],
            "secret": self.secret,
        }


class _Labels(np.ndarray):
    """Labels that note where they are read."""

    tape: Any

    def __array_finalize__(self, other: Any) -> None:
        self.tape = getattr(other, "tape", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        self._note()
        return getattr(ufunc, method)(*map(_plain, inputs), **_plain(options))

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        self._note()
        return function(*_plain(arguments), **_plain(options))

    def __getitem__(self, key: Any) -> Any:
        self._note()
        return np.asarray(self)[_plain(key)]

    def __iter__(self) -> Iterator[Any]:
        self._note()
        return iter(np.asarray(self))

    def tolist(self) -> Any:
        self._note()
        return np.asarray(self).tolist()

    def _note(self) -> None:
        if self.tape is not None:
            self.tape.note(self.tape.reads)


class _Noise(np.ndarray):
    """Noise that notes what it is added to, and what comes out."""

    tape: Any
    kind: str
    scale: Any
    draw: int

    def __array_finalize__(self, other: Any) -> None:
        for name in ("tape", "kind", "scale", "draw"):
            setattr(self, name, getattr(other, name, None))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        values, noise = [_plain(item) for item in inputs], [item for item in inputs if isinstance(item, _Noise)]
        options = {name: _plain(value) for name, value in options.items()}
        result = getattr(ufunc, method)(*values, **options)
        tape = noise[0].tape if noise else None
        if tape is None or method != "__call__":
            return result
        if ufunc in (np.negative, np.positive):
            return tape.tagged(result, noise[0].kind, noise[0].scale, noise[0].draw)
        if ufunc in (np.multiply, np.divide) and len(noise) == 1 and isinstance(inputs[0], _Noise):
            return tape.tagged(result, noise[0].kind, ufunc(noise[0].scale, np.abs(values[1])), noise[0].draw)
        if ufunc is np.multiply and len(noise) == 1:
            return tape.tagged(result, noise[0].kind, np.abs(values[0]) * noise[0].scale, noise[0].draw)
        same = len(noise) == 2 and np.array_equal(noise[0].scale, noise[1].scale)
        if ufunc is np.subtract and same and [item.kind for item in noise] == ["geometric", "geometric"]:
            return tape.tagged(result, "two-sided geometric", noise[0].scale, noise[0].draw)
        if ufunc in (np.add, np.subtract) and len(noise) == 1:
            [value] = [value for value, item in zip(values, inputs, strict=True) if not isinstance(item, _Noise)]
            return tape.added(noise[0], value, result)
        tape.bare.update(item.draw for item in noise)
        return result

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        self._read()
        return function(*_plain(arguments), **_plain(options))

    def __getitem__(self, key: Any) -> Any:
        self._read()
        return self.view(np.ndarray)[_plain(key)]

    def __float__(self) -> float:
        self._read()
        return float(self.view(np.ndarray))

    def __int__(self) -> int:
        self._read()
        return int(self.view(np.ndarray))

    def item(self, *arguments: Any) -> Any:
        self._read()
        return self.view(np.ndarray).item(*arguments)

    def tolist(self) -> Any:
        self._read()
        return self.view(np.ndarray).tolist()

    def _read(self) -> None:
        if self.tape is not None:
            self.tape.bare.add(self.draw)


class _Generator(np.random.Generator):
    """A numpy generator that notes its draws, and whose noise notes what it is added to."""

    tape: Any

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._noise("laplace", loc, scale, super().laplace(0.0, _plain(scale), size))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return self._noise("normal", loc, scale, super().normal(0.0, _plain(scale), size))

    def standard_normal(self, size: Any = None, *positional: Any, **options: Any) -> Any:
        return self._noise("normal", 0.0, 1.0, super().standard_normal(size, *positional, **options))

    def geometric(self, p: Any, size: Any = None) -> Any:
        return self._noise("geometric", 0, -1 / np.log1p(-np.asarray(_plain(p))), super().geometric(_plain(p), size))

    def _noise(self, kind: str, loc: Any, scale: Any, drawn: Any) -> Any:
        noise = self.tape.tagged(drawn, kind, np.asarray(_plain(scale), dtype=np.float64), self.tape.next_draw())
        return noise if np.all(np.asarray(loc) == 0) else _plain(loc) + noise


def _counted(name: str) -> Any:
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        self.tape.note(self.tape.draws)
        if not self.tape.depth:
            self.tape.note(self.tape.plain_draws)
        return getattr(np.random.Generator, name)(self, *map(_plain, arguments), **options)

    return method


for _name in ("random", "integers", "choice", "uniform", "binomial", "exponential", "gumbel", "permutation", "poisson"):
    setattr(_Generator, _name, _counted(_name))


def _noises(value: Any) -> Iterator[_Noise]:
    if isinstance(value, _Noise):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _noises(item)


def _plain(value: Any) -> Any:
    """Return a value without the marks of labels and noise."""
    if isinstance(value, _Labels | _Noise):
        return value.view(np.ndarray)
    if isinstance(value, tuple | list):
        parts = map(_plain, value)
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value


class _Diverged(BaseException):
    """The program takes another path on the neighbor; this ends the run."""


class _Tape:
    """A record of one run; if another run is played back, also that run."""

    def __init__(self, played: "_Tape | None" = None) -> None:
        self.played = played
        self.events: list[Event] = []
        self.charges: list[Charge] = []
        self.states: list[Any] = []
        self.reads: dict[str, int] = {}
        self.draws: dict[str, int] = {}
        self.plain_draws: dict[str, int] = {}
        self.others: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.bare: set[int] = set()
        self.leaves: Leaves = {}
        self.state: Leaves = {}
        self.unreadable: set[str] = set()
        self.escapes: set[tuple[str, str]] = set()
        self.number, self.depth, self.charging = 0, 0, False
        self.generator: Any = None

    def run(self, program: Program, labels: NDArray[Any], seed: int, primitives: Sequence[Primitive]) -> "_Tape":
        """Run the program, and keep its output."""
        self.generator = _Generator(np.random.PCG64(seed))
        self.generator.tape = self
        marked = np.array(labels).view(_Labels)
        marked.tape = self
        shown = io.StringIO()
        with _patched(self, primitives), _shown(shown), _watched(self):
            try:
                output = program(marked, self.generator)
                self.bare.update(item.draw for item in _noises(output))
                reader = Reader(self.charges, _is_program)
                reader.read(output, "output")  # iterators run here, as they would later
                self.unreadable = reader.unreadable
            except _Diverged:
                return self
        reader.read(shown.getvalue(), "shown")
        self.leaves, state = reader.leaves, Reader(self.charges, _is_program)
        read_state(program, state)
        self.state = state.leaves
        if self.played is not None and len(self.events) < len(self.played.events):
            self.findings.append(_flow(self.played.events[len(self.events)].site))
        return self

    def note(self, where: dict[str, int]) -> str:
        site = _site()
        where[site] = where.get(site, 0) + 1
        return site

    def next_draw(self) -> int:
        self.note(self.draws)
        self.number += 1
        return self.number

    def tagged(self, drawn: Any, kind: str, scale: Any, draw: int) -> Any:
        """Return noise with a mark of its draw."""
        noise = np.asarray(drawn).view(_Noise)
        noise.tape, noise.kind, noise.scale, noise.draw = self, kind, np.asarray(scale), draw
        return noise

    def added(self, noise: _Noise, value: Any, result: Any) -> Any:
        """Note that noise was added to a value; return the sum of the run that is played."""
        parameters = (np.asarray(noise.scale).tolist(), np.shape(result), noise.size)
        return self._event(noise.kind, parameters, np.array(value, dtype=np.float64), result, noise.draw, None)

    def randomized(self, original: Any, mechanism: Mechanism, labels: Any, **options: Any) -> Any:
        """Draw from a mechanism; return what it drew in the run that is played."""
        if self.depth:
            return original(mechanism, labels, **options)
        self.note(self.reads)
        self.depth += 1
        before = self.generator.bit_generator.state
        try:
            output = original(mechanism, _plain(labels), **options)
        finally:
            self.depth -= 1
        if self.generator.bit_generator.state == before:
            self.note(self.others)
        kind, specification, loss = type(mechanism).__name__, mechanism.specification(), mechanism.privacy_loss()
        return self._event(kind, specification, np.array(labels), output, None, loss, self.charging)

    def released(self, original: Any, *arguments: Any, **options: Any) -> Any:
        """Release by a curator, and keep its charges."""
        self.charging = True
        try:
            release = original(*arguments, **options)
        finally:
            self.charging = False
        self.charges.extend(charge for charge in release.certificate.entries if charge not in self.charges)
        return release

    def called(self, original: Any, primitive: Primitive, *arguments: Any, **options: Any) -> Any:
        """Call a primitive of another library."""
        if self.depth:
            return original(*arguments, **options)
        value, sensitivity, loss = primitive.declares(*arguments, **options)
        self.depth += 1
        try:
            output = original(*map(_plain, arguments), **_plain(options))
        finally:
            self.depth -= 1
        parameters = {"sensitivity": float(sensitivity), "loss": loss.to_json()}
        return self._event(primitive.name, parameters, np.array(_plain(value), dtype=np.float64), output, None, loss)

    def _event(
        self, kind: str, parameters: Any, value: Any, output: Any, noise: int | None, loss: Any, charged: bool = False
    ) -> Any:
        site = _site()
        if self.played is not None:
            position = len(self.events)
            if position >= len(self.played.events):
                self.findings.append(_flow(site))
                raise _Diverged
            other = self.played.events[position]
            if (other.kind, other.site) != (kind, site) or np.shape(other.value) != np.shape(value):
                self.findings.append(_flow(site))
                raise _Diverged
            if other.parameters != parameters:
                self.findings.append(
                    Finding("parameters", f"the parameters of {kind} depend on labels: scale, size or domain", site)
                )
                raise _Diverged
            output = other.output
            self.generator.bit_generator.state = self.played.states[position]
        self.events.append(Event(kind, site, parameters, value, output, noise, loss, charged))
        self.states.append(self.generator.bit_generator.state)
        return output


def _flow(site: str) -> Finding:
    return Finding("control flow", "which noise is drawn, and how often, depends on labels", site)


def _site() -> str:
    """Return file and line of the innermost frame of the program: not of labeldp, of Python or of a library."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if _is_program(path):
            return f"{Path(path).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _is_program(path: str) -> bool:
    return not (path.startswith((PACKAGE, sys.base_prefix, "<")) or "site-packages" in path)


@contextmanager
def _shown(stream: io.StringIO) -> Iterator[None]:
    """Write into a stream what a body shows: on the terminal, in logs and in warnings."""

    def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
        stream.write(f"{record.levelname} {record.name} {record.getMessage()}\n")

    def warn(message: Any, category: Any, *places: Any, **options: Any) -> None:
        stream.write(f"{category.__name__} {message}\n")

    with ExitStack() as stack:
        for redirect in (redirect_stdout(stream), redirect_stderr(stream), warnings.catch_warnings()):
            stack.enter_context(redirect)
        for owner, name, value in (
            (sys, "__stdout__", stream),
            (sys, "__stderr__", stream),
            (logging.Logger, "handle", handle),
        ):
            stack.enter_context(patch.object(owner, name, value))
        warnings.simplefilter("always")
        warnings.showwarning = warn
        yield


_WATCHERS: list["_Tape"] = []
"""Runs that note what leaves a process; Python cannot take its hook off again."""

_ESCAPES = {
    "open": "a file",
    "os.write": "a file",
    "os.rename": "a file",
    "os.mkdir": "a file",
    "os.symlink": "a file",
    "os.truncate": "a file",
    "os.utime": "a file",
    "os.remove": "a file",
    "sqlite3.connect": "a database",
    "socket.connect": "a socket",
    "socket.sendto": "a socket",
    "subprocess.Popen": "a process",
    "os.system": "a process",
    "os.fork": "a process",
    "os.exec": "a process",
    "os.posix_spawn": "a process",
    "os.kill": "a process",
    "os.putenv": "the environment",
    "ctypes.dlopen": "a library",
    "mmap.__new__": "memory of others",
}
"""Events of Python by which a program reaches beyond its process, and what they are called here."""


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _WATCHERS and event in _ESCAPES:
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        site = _caller()
        if site:
            _WATCHERS[-1].escapes.add((_ESCAPES[event], site))


def _caller() -> str:
    """Return file and line of the program where it calls Python or a library; empty where labeldp or an import does."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if _is_program(path):
            return f"{Path(path).name}:{frame.f_lineno}"
        if (path.startswith(PACKAGE) and frame.f_globals.get("__name__") != __name__) or "importlib" in path:
            return ""
        frame = frame.f_back
    return ""


@contextmanager
def _watched(tape: "_Tape") -> Iterator[None]:
    """Note files, sockets and processes that a body uses."""
    if not _HOOKED:
        sys.addaudithook(_hook)
        _HOOKED.append(True)

    def write(*arguments: Any) -> Any:
        _hook("os.write", arguments)
        return original(*arguments)

    original = os.write
    _WATCHERS.append(tape)
    try:
        with patch.object(os, "write", write):
            yield
    finally:
        _WATCHERS.remove(tape)


_HOOKED: list[bool] = []


@contextmanager
def _patched(tape: _Tape, primitives: Sequence[Primitive]) -> Iterator[None]:
    """Note, while a body runs, what mechanisms, curators, primitives and global sources of randomness do."""
    with ExitStack() as stack:

        def swap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
            original = getattr(owner, name)

            def replacement(*arguments: Any, **options: Any) -> Any:
                return wrapper(original, *arguments, **options)

            stack.enter_context(patch.object(owner, name, replacement))

        classes = [entry.load() for entry in MECHANISMS.values()]
        for owner in {next(base for base in item.__mro__ if "randomize" in vars(base)) for item in classes}:
            swap(owner, "randomize", tape.randomized)
        swap(Curator, "release", tape.released)
        for primitive in primitives:
            swap(primitive.owner, primitive.name, lambda original, *positional, of=primitive, **options: tape.called(
                original, of, *positional, **options
            ))  # fmt: skip

        def counted(original: Any, *arguments: Any, **options: Any) -> Any:
            if _is_program(sys._getframe(2).f_code.co_filename):
                tape.note(tape.others)
            return original(*arguments, **options)

        for name in ("default_rng", "normal", "laplace", "rand", "randn", "random", "randint", "choice"):
            swap(np.random, name, counted)
        yield


def trace(
    program: Program,
    labels: Any,
    *,
    epsilon: Any,
    delta: Any = 0.0,
    values: Any = None,
    pairs: int = 20,
    seed: int = 0,
    primitives: Sequence[Primitive] = (),
    real: bool = False,
) -> Trace:
    """Run a program on neighboring labels with the same randomness, and report what it does with them.

    On the labels, every noisy value is recorded. On a neighbor, where one label is another value, the recorded noisy
    values are played back. If anything other than the inputs of noise differs, it depends on labels without noise: the
    output, scales, or the choice of the noise. The distance of the inputs is the sensitivity, which gives the cost of
    each draw. Findings are facts about the pairs that were run. A trace without findings is no proof.

    Outputs are compared to the last bit, with all that they refer to; so are prints, logs, warnings and the globals
    that the program names. An output that cannot be read, and files, sockets and processes, are "unverified". Not seen:
    an event that no pair meets, time and memory, threads, errors, and what compiled libraries keep.

    Args:
        program: takes labels, shape (n,), and a numpy generator, which is its only source of noise; returns its output.
        labels: shape (n,), numbers or texts; synthetic, if `real` does not say otherwise.
        epsilon, delta: what the program claims.
        values: the values of the domain that neighbors take; by default the smallest and the largest label.
        pairs: how many neighbors are tried, of synthetic labels twice as many.
        seed: of the randomness of the runs.
        primitives: functions of other libraries that add noise.
        real: whether the labels are real: then the trace is as secret as they are.

    Raises:
        InputError: no labels, fewer than two values, or a claim that is none.

    Source: ReCordPlay; the seven kinds of mistakes are in `docs/how-to/audit.md`.

    Examples:
        >>> def noisy_sum(labels, rng):
        ...     return labels.sum() + rng.laplace(scale=1.0)
        >>> trace(noisy_sum, [0, 1, 1, 0], epsilon=1).verdict
        'holds'
        >>> trace(noisy_sum, [0, 1, 1, 0], epsilon=0.5).findings[0].kind
        'budget'
    """
    array = np.array(labels)
    if array.ndim != 1 or not len(array):
        raise InputError("must hold one or more labels, shape (n,)", argument="labels")
    domain = np.unique(array) if values is None else np.unique(np.asarray(values))
    if len(domain) < 2:
        raise InputError("must hold two or more values of the domain", argument="values")
    check_integer(pairs, "pairs", 1)
    claim = (float(decimal(epsilon, "epsilon")), float(decimal(delta, "delta")))
    if claim[0] <= 0:
        raise InputError("must be positive", argument="epsilon")
    runs = [_Pairs.run(program, base, domain, claim, pairs, seed, primitives) for base in _bases(array, domain, real)]
    findings = [finding for run in runs for finding in run.findings]
    distinct = tuple(sorted(dict.fromkeys(findings), key=lambda finding: (not finding.fails, finding.kind)))
    first = runs[0].first
    events = tuple(
        {"kind": event.kind, "site": event.site, "sensitivity": far, "epsilon": paid}
        for event, (far, paid) in zip(first.events, runs[0].measured, strict=True)
    )
    worst = max(run.worst for run in runs)
    return Trace(distinct, first.reads, first.draws, events, worst, claim, pairs * len(runs), real)


def _bases(labels: NDArray[Any], domain: NDArray[Any], real: bool) -> list[NDArray[Any]]:
    """Return the labels and, if they are synthetic, others in which one value occurs once."""
    if real:
        return [labels]
    rare = np.where(labels == domain[-1], domain[0], labels)
    rare[len(rare) // 2] = domain[-1]
    return [labels, rare]


@dataclass
class _Pairs:
    """One base and its neighbors.

    Args:
        first: the run on the base.
        findings: what was found.
        measured: sensitivity and epsilon of each event.
        worst: epsilon of the worst pair.
    """

    first: _Tape
    findings: list[Finding]
    measured: list[list[float]]
    worst: float = 0.0

    @classmethod
    def run(
        cls,
        program: Program,
        base: NDArray[Any],
        domain: NDArray[Any],
        claim: tuple[float, float],
        pairs: int,
        seed: int,
        primitives: Sequence[Primitive],
    ) -> "_Pairs":
        """Run a program on a base and on its neighbors; half of them change a record of the rarest value."""
        chooser = np.random.default_rng(seed)
        first = _Tape().run(program, base, seed, primitives)
        result = cls(first, [*_reused(first), *_foreign(first)], [[0.0, 0.0] for _ in first.events])
        result.findings += _frozen(program, base, seed, first, primitives)
        same = _Tape(first).run(program, base, seed, primitives)
        unstable, changing = _differences(first.leaves, same.leaves), _differences(first.state, same.state)
        result.findings += _unreadable(first, unstable)
        values, counts = np.unique(base, return_counts=True)
        explained = False
        rare = np.flatnonzero(base == values[counts.argmin()])
        for number in range(pairs):
            row = int(chooser.choice(rare if number % 2 else len(base)))
            alternatives = domain[domain != base[row]]
            neighbor = base.copy()
            neighbor[row] = alternatives[(0, -1, chooser.integers(len(alternatives)))[number % 3]]
            other = _Tape(first).run(program, neighbor, seed, primitives)
            result.findings += other.findings
            if other.findings:
                continue
            if not explained and _differences(first.leaves, other.leaves) - unstable:
                explained = True
                result.findings += _unexplained(program, base, neighbor, first, claim, primitives)
            if _differences(first.state, other.state) - changing:
                result.findings.append(Finding("raw output", "what the program leaves in memory depends on labels"))
            cost = _cost(first, other, result.measured, result.findings)
            result.worst = max(result.worst, cost.epsilon(claim[1]))
            if not cost.within(*claim):
                result.findings.append(Finding("budget", "one label costs more than is claimed, all draws together"))
        return result


def _differences(one: Leaves, other: Leaves) -> set[str]:
    """Return the places where two runs differ."""
    return {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}


def _unreadable(tape: _Tape, unstable: set[str]) -> list[Finding]:
    """Report what cannot be compared: then nothing is known of it."""
    findings = [
        Finding("raw output", f"an output cannot be compared ({kind}): return numbers, texts or arrays", fails=False)
        for kind in sorted(tape.unreadable)
    ]
    findings += [
        Finding("raw output", f"what leaves through {way} is not compared", site, fails=False)
        for way, site in sorted(tape.escapes)
    ]
    if unstable and not tape.others:
        sentence = "the output differs in two runs on the same labels with the same draws: time, memory or other state"
        findings.append(Finding("raw output", sentence, fails=False))
    return findings


def _cost(one: _Tape, other: _Tape, measured: list[list[float]], findings: list[Finding]) -> RecordLoss:
    """Return what a pair costs, all events together."""
    drawn = PrivacyLoss.zero()
    for event, twin, row in zip(one.events, other.events, measured, strict=True):
        if event.loss is not None or event.noise is None:
            loss = event.loss or PrivacyLoss.zero()
            if not isinstance(event.parameters, dict) or "sensitivity" not in event.parameters:
                moves = int(np.sum(event.value != twin.value)) - event.charged
                loss = loss * moves if moves > 0 else PrivacyLoss.zero()
            declared = event.parameters.get("sensitivity") if isinstance(event.parameters, dict) else None
            if declared is not None:
                row[0] = max(row[0], float(np.abs(event.value - twin.value).sum()))
                if float(_moved(event.value, twin.value).sum()) > declared:
                    findings.append(Finding("sensitivity", f"{event.kind} moves by more than it declares", event.site))
        else:
            scale, moved = np.asarray(event.parameters[0]), _moved(event.value, twin.value)
            row[0] = max(row[0], float(np.abs(event.value - twin.value).sum()))
            loss = _noise_loss(event, moved, scale, findings)
        row[1] = max(row[1], loss.epsilon(0) if loss.max_loss is not None else math.inf)
        drawn += loss
    charged = total_loss(one.charges)
    largest = None if charged.max_loss is None or drawn.max_loss is None else charged.max_loss + drawn.max_loss
    return RecordLoss(tuple(loss + drawn for loss in charged.losses or (PrivacyLoss.zero(),)), largest)


def _moved(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return by how much values move, at least: their rounding is taken off."""
    return np.maximum(np.abs(one - other) - ROUNDING * np.maximum(np.abs(one), np.abs(other)), 0.0)


def _noise_loss(event: Event, moved: NDArray[Any], scale: NDArray[Any], findings: list[Finding]) -> PrivacyLoss:
    if not moved.any():
        return PrivacyLoss.zero()
    if (np.broadcast_to(scale, moved.shape)[moved > 0] <= 0).any():
        findings.append(Finding("noise", "noise of scale zero is added to a value that depends on labels", event.site))
        return PrivacyLoss.zero()
    units = moved / np.broadcast_to(scale, moved.shape)
    if event.kind == "normal":
        return PrivacyLoss.gaussian(float(np.sqrt((units**2).sum())))
    if event.kind == "two-sided geometric" and (event.value % 1).any():
        findings.append(Finding("noise", "integer noise is added to numbers that are no integers", event.site))
    if event.kind in ("laplace", "two-sided geometric"):
        return PrivacyLoss.pure(float(units.sum()))
    findings.append(Finding("noise", f"{event.kind} noise has one side: it hides nothing", event.site))
    return PrivacyLoss.zero()


def _reused(tape: _Tape) -> list[Finding]:
    """Report draws that are added to two values."""
    seen: dict[int, str] = {}
    findings = []
    for event in tape.events:
        if event.noise is not None and seen.setdefault(event.noise, "") != "":
            findings.append(Finding("noise reused", "one draw of noise is added to two values", event.site))
        elif event.noise is not None and event.parameters[2] < np.size(event.value):
            findings.append(Finding("noise reused", "one draw of noise is added to several values", event.site))
        if event.noise is not None:
            seen[event.noise] = event.site
    used = {event.noise for event in tape.events}
    if tape.bare & used:
        findings.append(Finding("noise", "a draw of noise is used outside of its sum, too", fails=False))
    return findings


def _foreign(tape: _Tape) -> list[Finding]:
    """Report random numbers that do not come from the generator that the program was given."""
    return [
        Finding("randomness", "random numbers come from another source than the given generator", site, fails=False)
        for site in tape.others
    ]


def _frozen(
    program: Program, labels: NDArray[Any], seed: int, first: _Tape, primitives: Sequence[Primitive]
) -> list[Finding]:
    """Report noise that is the same in every run: a seed that the program fixed."""
    again = _Tape().run(program, labels, seed + 1, primitives)
    if first.leaves != again.leaves:
        return []
    drawn = [pair for pair in zip(first.events, again.events, strict=False) if pair[0].noise is not None]
    frozen = [one for one, other in drawn if np.array_equal(one.output, other.output)]
    if frozen or (first.others and not first.events):
        return [Finding("randomness", "the noise is the same in every run: a seed is fixed")]
    return []


def _unexplained(
    program: Program,
    labels: NDArray[Any],
    neighbor: NDArray[Any],
    first: _Tape,
    claim: tuple[float, float],
    primitives: Sequence[Primitive],
) -> list[Finding]:
    """Report an output that differs although all noisy values are the same.

    If the program draws plain random numbers, it may have computed noise from them. Then the output is compared over
    other runs. No output that is constant on each side and differs between the sides satisfies a claim of this epsilon.
    """
    if not (first.plain_draws or first.others or first.bare):
        return [Finding("raw output", "the output depends on labels without noise")]
    epsilon, delta = claim
    growth = math.exp(-min(epsilon, 50.0))
    likely = 1 - growth + delta if growth <= 0.5 else 1 / (4 * growth) + delta
    runs = math.ceil(math.log(FALSE_ALARM) / math.log(likely)) if 0 < likely < 1 else MOST_RUNS + 1
    unseen = Finding(
        "noise", "plain random numbers are drawn, and how they hide labels is not seen: use audit_sampler", fails=False
    )
    if runs > MOST_RUNS:
        return [unseen]
    sides = [
        [_Tape().run(program, side, 1000 + number, primitives).leaves for number in range(runs)]
        for side in (labels, neighbor)
    ]
    constant = [set.intersection(*[set(output.items()) for output in outputs]) for outputs in sides]
    names = [{name for name, _ in leaves} for leaves in constant]
    if any((name, value) not in constant[1] for name, value in constant[0] if name in names[1]):
        return [Finding("raw output", "the output depends on labels without noise")]
    return [unseen]
