"""Audits of libraries that others wrote: bounds from outputs, and traces of what they do with labels.

Each runs in an environment of its own, which has the library and labeldp:

    python -P benchmarks/other_libraries.py opendp
"""

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from labeldp.audit import Primitive, audit_sampler, trace
from labeldp.privacy import PrivacyLoss

RUNS, LEVEL = 20_000, 0.9999
"""Outputs for each label, and the confidence of a bound: of forty honest rows one is refuted in 250 tables."""

LABELS = np.array([0, 1] * 100)


class Outcome(NamedTuple):
    """A row of the page."""

    what: str
    how: str
    claim: float
    found: str


def bound(what: str, claim: float, draw: Callable[[int], Any], labels: list[Any], runs: int = RUNS) -> Outcome:
    """Compare a claim with a lower bound from outputs."""
    lower = audit_sampler(
        lambda label, count: np.array([draw(label) for _ in range(count)]), labels, runs=runs, level=LEVEL
    )
    verdict = "refuted" if lower.refutes(claim) else "not refuted"
    return Outcome(what, "outputs", claim, f"at least {lower.epsilon:.3f}: {verdict}")


def traced(what: str, claim: float, program: Callable[..., Any], primitives: list[Primitive]) -> Outcome:
    """Trace a program that calls primitives of a library."""
    result = trace(program, LABELS, epsilon=claim, values=[0, 1], primitives=primitives)
    words = "; ".join(dict.fromkeys(finding.sentence for finding in result.findings)) or f"cost {result.epsilon:.3f}"
    return Outcome(what, "trace", claim, f"{result.verdict}: {words}")


def opendp() -> Iterator[Outcome]:
    """OpenDP: responses, and noise on a sum."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point")
    for classes in (2, 4):
        names = [str(number) for number in range(classes)]
        for epsilon in (0.5, 1.0, 3.0):
            keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
            response = dp.m.make_randomized_response(names, keep)
            yield bound(f"make_randomized_response, {classes} classes", response.map(1), response, names)
    for name, make in (("make_laplace", dp.m.make_laplace), ("make_geometric", dp.m.make_geometric)):
        space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
        noise = make(*space, scale=1.0)
        yield bound(name, noise.map(1), noise, [0, 1])


def diffprivlib() -> Iterator[Outcome]:
    """diffprivlib: mechanisms on classes, and tools whose Laplace noise is traced."""
    from diffprivlib import mechanisms, tools

    for epsilon in (0.5, 1.0, 3.0):
        binary = mechanisms.Binary(epsilon=epsilon, value0="no", value1="yes")
        yield bound("mechanisms.Binary", epsilon, binary.randomise, ["no", "yes"])
        pairs = [[str(a), str(b), 1] for a in range(4) for b in range(a)]
        categorical = mechanisms.ExponentialCategorical(epsilon=epsilon, utility_list=pairs)
        yield bound("mechanisms.ExponentialCategorical", epsilon, categorical.randomise, list("0123"))
        geometric = mechanisms.Geometric(epsilon=epsilon, sensitivity=1)
        yield bound("mechanisms.Geometric", epsilon, geometric.randomise, [0, 1])

    def declares(self: Any, value: float) -> tuple[float, float, PrivacyLoss]:
        return value, self.sensitivity, PrivacyLoss.pure(self.epsilon)

    owners = [mechanisms.Laplace, mechanisms.LaplaceTruncated, mechanisms.LaplaceBoundedDomain, mechanisms.Geometric]
    owners += [mechanisms.GeometricTruncated]
    primitives = [Primitive(owner, "randomise", declares) for owner in owners if "randomise" in vars(owner)]
    asked: dict[str, Callable[[Any], Any]] = {
        "mean": lambda y: tools.mean(y.astype(float), epsilon=1, bounds=(0, 1)),
        "sum": lambda y: tools.sum(y.astype(float), epsilon=1, bounds=(0, 1)),
        "var": lambda y: tools.var(y.astype(float), epsilon=1, bounds=(0, 1)),
        "std": lambda y: tools.std(y.astype(float), epsilon=1, bounds=(0, 1)),
        "count_nonzero": lambda y: tools.count_nonzero(y, epsilon=1),
        "histogram": lambda y: tools.histogram(y.astype(float), epsilon=1, bins=4, range=(0, 1))[0],
    }
    for name, ask in asked.items():
        yield traced(f"tools.{name}, one label replaced", 1, lambda y, rng, ask=ask: ask(np.asarray(y)), primitives)


def multi_freq_ldpy() -> Iterator[Outcome]:
    """multi-freq-ldpy: clients of pure frequency oracles."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, SS, UE

    for epsilon in (0.5, 1.0, 3.0):
        yield bound("GRR_Client, 4 classes", epsilon, lambda y, e=epsilon: GRR.GRR_Client(y, 4, e), [0, 1])
        yield bound(
            "UE_Client, 4 classes", epsilon, lambda y, e=epsilon: np.asarray(UE.UE_Client(y, 4, e)).astype(int), [0, 1]
        )
        yield bound(
            "SS_Client, 4 classes", epsilon, lambda y, e=epsilon: np.sort(np.asarray(SS.SS_Client(y, 4, e))), [0, 1]
        )


def pure_ldp() -> Iterator[Outcome]:
    """pure-LDP: clients of frequency oracles; items are counted from 1."""
    from pure_ldp.frequency_oracles.direct_encoding import DEClient
    from pure_ldp.frequency_oracles.unary_encoding import UEClient

    for epsilon in (0.5, 1.0, 3.0):
        direct, unary = DEClient(epsilon, 4), UEClient(epsilon, 4, use_oue=True)
        yield bound("DEClient, 4 classes", epsilon, direct.privatise, [1, 2])
        yield bound(
            "UEClient (OUE), 4 classes", epsilon, lambda y, c=unary: np.asarray(c.privatise(y)).astype(int), [1, 2]
        )


LIBRARIES = {"opendp": opendp, "diffprivlib": diffprivlib, "multi-freq-ldpy": multi_freq_ldpy, "pure-ldp": pure_ldp}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=LIBRARIES)
    name = parser.parse_args().library
    warnings.simplefilter("ignore")
    for row in LIBRARIES[name]():
        print(f"| {name} {version(name)} | {row.what} | {row.how} | {row.claim:.4g} | {row.found} |", flush=True)


if __name__ == "__main__":
    main()
