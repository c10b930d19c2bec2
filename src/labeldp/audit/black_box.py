"""Lower bounds of epsilon from outputs alone: an event is searched on one half of them, and counted on the other."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.audit.bounds import LEVEL, best_cut, check_level, epsilon_of_rates, rate_above, rate_below
from labeldp.privacy import Floats, InputError, check_integer

MOST_VALUES = 64
"""Numbers of one coordinate that are counted one by one; more are put into bins of equal counts."""

Score = Callable[[NDArray[Any]], Floats]


@final
@dataclass(frozen=True)
class LowerBound:
    """An epsilon that the mechanism does not keep, with confidence.

    Args:
        epsilon: the mechanism is not (e, delta)-DP for any e below it, unless the draws were among the `1 - level`
            worst.
        delta, level: at which delta, and how sure.
        how: what was seen, in words.
    """

    epsilon: float
    delta: float
    level: float
    how: str

    def refutes(self, claim: float) -> bool:
        """Return whether a claimed epsilon at this delta is refuted."""
        return self.epsilon > claim

    def __str__(self) -> str:
        words = f"epsilon is at least {self.epsilon:.4g}" if self.epsilon else "nothing above 0 is shown"
        return f"{words} at delta = {self.delta:g}, with confidence {self.level:g}: {self.how}"


def audit_outputs(
    outputs: dict[Any, Any], *, delta: float = 0.0, level: float = LEVEL, seed: int = 0, split: float = 0.5
) -> LowerBound:
    """Return a lower bound of epsilon from outputs for two labels or more.

    On one half of the outputs an event is searched that is likelier for one label than for another; how likely it is
    for both is counted on the other half alone, and bounded by Clopper and Pearson. Outputs of one label must be
    independent. An event is a threshold on a score: how much more often an output was seen for one label, as a whole
    or, where wholes do not repeat, by its coordinates.

    Args:
        outputs: for each label an array of its outputs, shape (n,) or (n, d); numbers, texts or bytes.
        delta: of the claim.
        level: the confidence.
        seed: of the split into halves, which may not depend on outputs.
        split: the share on which the event is searched.

    Guarantee (bound): for an (epsilon, delta)-DP mechanism the bound is above epsilon with probability 1 - level at
        most.

    Raises:
        InputError: fewer than two labels, or fewer than four outputs of one.

    Source: `docs/proofs/audit.md`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> coin = rng.random(4000) < 0.25
        >>> audit_outputs({"no": coin[:2000], "yes": ~coin[2000:]}).epsilon > 0.8
        True
    """
    confidence, share = check_level(level), float(delta)
    if not 0 <= share < 1:
        raise InputError("must lie in [0, 1)", argument="delta")
    if not 0 < split < 1:
        raise InputError("must lie between 0 and 1", argument="split")
    tables = {label: _table(values) for label, values in outputs.items()}
    if len(tables) < 2 or len({each.shape[1:] for each in tables.values()}) > 1:
        raise InputError("must hold outputs of one shape for two labels or more", argument="outputs")
    if min(map(len, tables.values())) < 4:
        raise InputError("must hold at least four outputs for each label", argument="outputs")
    rng = np.random.default_rng(seed)
    search, count = {}, {}
    for label, values in tables.items():
        order = rng.permutation(len(values))
        first = max(2, min(len(values) - 2, int(split * len(values))))
        search[label], count[label] = values[order[:first]], values[order[first:]]
    miss = 1 - confidence
    one, two, score, cut = _search(search, miss, share)
    hits = [int((score(count[label]) >= cut).sum()) for label in (one, two)]
    low = float(rate_below(hits[0], len(count[one]), miss / 2))
    high = float(rate_above(hits[1], len(count[two]), miss / 2))
    how = (
        f"one event had {hits[0]:,} of {len(count[one]):,} outputs of {str(one)!r} and {hits[1]:,} of "
        f"{len(count[two]):,} of {str(two)!r}"
    )
    return LowerBound(epsilon_of_rates(low, high, share), share, confidence, how)


def audit_sampler(draw: Callable[[Any, int], Any], labels: Sequence[Any], *, runs: int, **options: Any) -> LowerBound:
    """Return a lower bound of epsilon of any program: it draws `runs` outputs for each label.

    Args:
        draw: called with a label, or with whatever stands for a set of labels, and how many outputs; returns them,
            shape (n,) or (n, d), independent of each other and of earlier calls.
        labels: two or more. Of sets of labels any two must be neighbors.
        runs: outputs for each label.
        options: those of `audit_outputs`.

    Examples:
        >>> from labeldp.mechanisms import Classes, RandomizedResponse
        >>> mechanism = RandomizedResponse(domain=Classes(2), epsilon=1)
        >>> rng = np.random.default_rng(0)
        >>> bound = audit_sampler(lambda y, n: mechanism.randomize(np.full(n, y), rng=rng), [0, 1], runs=50_000)
        >>> 0.9 < bound.epsilon < 1
        True
    """
    count = check_integer(runs, "runs", least=4)
    return audit_outputs({label: draw(label, count) for label in labels}, **options)


def _table(values: Any) -> NDArray[Any]:
    """Return outputs as an array (n, d)."""
    table = np.asarray(values)
    if table.dtype.kind == "f" and not bool(np.isfinite(table).all()):
        raise InputError("must be finite where they are numbers", argument="outputs")
    if table.ndim not in (1, 2) or not table.size:
        raise InputError("must hold an array of outputs, shape (n,) or (n, d), for each label", argument="outputs")
    return table[:, None] if table.ndim == 1 else table


def _search(found: dict[Any, NDArray[Any]], miss: float, delta: float) -> tuple[Any, Any, Score, float]:
    """Return the labels, score and threshold that promise most: learned on one half of these, chosen on the other."""
    best: tuple[float, Any, Any, Score, float] | None = None
    for one, two in permutations(found, 2):
        parts = [(each[::2], each[1::2]) for each in (found[one], found[two])]
        for make in (_by_wholes, _by_coordinates):
            score = make(parts[0][0], parts[1][0])
            cut, promise = best_cut(score(parts[0][1]), score(parts[1][1]), miss, delta)
            if best is None or promise > best[0]:
                best = promise, one, two, score, cut
    assert best is not None
    return best[1:]


def _by_wholes(one: NDArray[Any], two: NDArray[Any]) -> Score:
    """Return the log odds of an output as a whole; of one that was not seen, 0."""
    counts: dict[Hashable, list[int]] = {}
    for place, table in enumerate((one, two)):
        for key in _keys(table):
            counts.setdefault(key, [0, 0])[place] += 1
    odds = {key: _log_odds(a, b, len(one), len(two)) for key, (a, b) in counts.items()}
    return lambda table: np.array([odds.get(key, 0.0) for key in _keys(table)])


def _by_coordinates(one: NDArray[Any], two: NDArray[Any]) -> Score:
    """Return the sum over coordinates of the log odds of their values, or of bins of numbers."""
    tables: list[tuple[Callable[[NDArray[Any]], NDArray[np.intp]], Floats]] = []
    for column in range(one.shape[1]):
        place = _places(np.concatenate([one[:, column], two[:, column]]))
        mine, other = (place(table[:, column]) for table in (one, two))
        size = int(max(mine.max(), other.max())) + 2
        a, b = (np.bincount(each, minlength=size) for each in (mine, other))
        odds = np.log((a + 0.5) / (len(one) + 0.5 * size)) - np.log((b + 0.5) / (len(two) + 0.5 * size))
        tables.append((place, odds))

    def score(table: NDArray[Any]) -> Floats:
        total = np.zeros(len(table))
        for column, (place, odds) in enumerate(tables):
            total += odds[np.minimum(place(table[:, column]), len(odds) - 1)]
        return total

    return score


def _places(values: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[np.intp]]:
    """Return a function from values of a coordinate to numbers of values or of bins."""
    known, times = np.unique(values, return_counts=True)
    if len(known) <= MOST_VALUES or values.dtype.kind not in "iuf":
        kept = known if len(known) <= MOST_VALUES else known[np.sort(np.argsort(-times, kind="stable")[:MOST_VALUES])]

        def of_values(each: NDArray[Any]) -> NDArray[np.intp]:
            found = np.minimum(np.searchsorted(kept, each), len(kept) - 1)
            return np.where(kept[found] == each, found, len(kept)).astype(np.intp)

        return of_values
    bins = min(MOST_VALUES, max(4, int(math.sqrt(len(values)) / 2)))
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    # Values of great weight have a bin of their own: what lies at an end of an interval tells most.
    heavy = known[times > len(values) / bins]
    cuts = np.unique(np.concatenate([edges, heavy, np.nextafter(heavy.astype(np.float64), np.inf)]))
    return lambda each: np.searchsorted(cuts, each, side="right").astype(np.intp)


def _log_odds(one: int, two: int, ones: int, twos: int) -> float:
    return math.log((one + 0.5) / (ones + 1)) - math.log((two + 0.5) / (twos + 1))


def _keys(table: NDArray[Any]) -> list[Hashable]:
    """Return what stands for each output as a whole."""
    if table.shape[1] == 1:
        return list(table[:, 0].tolist())
    if table.dtype.kind == "O":
        return [tuple(row) for row in table.tolist()]
    return [row.tobytes() for row in np.ascontiguousarray(table)]
