"""Lower bounds of epsilon from outputs alone, and what rates and right guesses say of epsilon, with confidence."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from labeldp.privacy import Floats, InputError, check_integer

LEVEL = 0.95
"""The confidence by default."""
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
    if len(tables) < 2 or len({table.shape[1:] for table in tables.values()}) > 1:
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
    count = check_integer(runs, "runs", low=4)
    return audit_outputs({label: draw(label, count) for label in labels}, **options)


def _table(values: Any) -> NDArray[Any]:
    """Return outputs as an array (n, d)."""
    table = np.asarray(values)
    if table.dtype.kind == "f" and not bool(np.isfinite(table).all()):
        raise InputError("must be finite where they are numbers", argument="outputs")
    if table.ndim not in (1, 2) or not table.size:
        raise InputError("must hold an array of outputs, shape (n,) or (n, d), for each label", argument="outputs")
    return table[:, None] if table.ndim == 1 else table


def _search(outputs: dict[Any, NDArray[Any]], miss: float, delta: float) -> tuple[Any, Any, Score, float]:
    """Return the labels, score and threshold that guarantee most: learned on one half of these, chosen on the other."""
    best: tuple[float, Any, Any, Score, float] | None = None
    for one, two in permutations(outputs, 2):
        parts = [(table[::2], table[1::2]) for table in (outputs[one], outputs[two])]
        for make in (_by_wholes, _by_coordinates):
            score = make(parts[0][0], parts[1][0])
            cut, promise = best_cut(score(parts[0][1]), score(parts[1][1]), miss, delta)
            if best is None or promise > best[0]:
                best = promise, one, two, score, cut
    assert best is not None
    return best[1:]


def _by_wholes(one: NDArray[Any], two: NDArray[Any]) -> Score:
    """Return the log odds of a whole output, or 0 for an unseen output."""
    counts: dict[Hashable, list[int]] = {}
    for side, table in enumerate((one, two)):
        for key in _keys(table):
            counts.setdefault(key, [0, 0])[side] += 1
    ratio = (len(two) + 1) / (len(one) + 1)
    odds = {key: math.log((a + 0.5) / (b + 0.5) * ratio) for key, (a, b) in counts.items()}
    return lambda table: np.array([odds.get(key, 0.0) for key in _keys(table)])


def _by_coordinates(one: NDArray[Any], two: NDArray[Any]) -> Score:
    """Return the sum over coordinates of the log odds of their values, or of bins of numbers."""
    tables: list[tuple[Callable[[NDArray[Any]], NDArray[np.intp]], Floats]] = []
    for column in range(one.shape[1]):
        bin_of = _places(np.concatenate([one[:, column], two[:, column]]))
        mine, other = (bin_of(table[:, column]) for table in (one, two))
        size = int(max(mine.max(), other.max())) + 2
        a, b = (np.bincount(bins, minlength=size) for bins in (mine, other))
        odds = np.log((a + 0.5) / (len(one) + 0.5 * size)) - np.log((b + 0.5) / (len(two) + 0.5 * size))
        tables.append((bin_of, odds))

    def score(table: NDArray[Any]) -> Floats:
        total = np.zeros(len(table))
        for column, (bin_of, odds) in enumerate(tables):
            total += odds[np.minimum(bin_of(table[:, column]), len(odds) - 1)]
        return total

    return score


def _places(values: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[np.intp]]:
    """Return a function from values of a coordinate to numbers of values or of bins."""
    distinct, times = np.unique(values, return_counts=True)
    if len(distinct) <= MOST_VALUES or values.dtype.kind not in "iuf":
        counted = distinct[np.sort(np.argsort(-times, kind="stable")[:MOST_VALUES])]

        def of_values(column: NDArray[Any]) -> NDArray[np.intp]:
            positions = np.minimum(np.searchsorted(counted, column), len(counted) - 1)
            return np.where(counted[positions] == column, positions, len(counted)).astype(np.intp)

        return of_values
    bins = min(MOST_VALUES, max(4, int(math.sqrt(len(values)) / 2)))
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1)[1:-1]))
    # Values of great weight have a bin of their own: what lies at an end of an interval tells most.
    heavy = distinct[times > len(values) / bins]
    cuts = np.unique(np.concatenate([edges, heavy, np.nextafter(heavy.astype(np.float64), np.inf)]))
    return lambda column: np.searchsorted(cuts, column, side="right").astype(np.intp)


def _keys(table: NDArray[Any]) -> list[Hashable]:
    """Return what stands for each output as a whole."""
    if table.shape[1] == 1:
        return list(table[:, 0].tolist())
    if table.dtype.kind == "O":
        return [tuple(row) for row in table.tolist()]
    return [row.tobytes() for row in np.ascontiguousarray(table)]


def rate_below(hits: Any, trials: Any, miss: float) -> Any:
    """Return a lower bound of a binomial rate, which is above the rate with probability `miss` at most.

    Source: Clopper.
    """
    from scipy.special import betaincinv

    hits, trials = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, miss), 0.0)


def rate_above(hits: Any, trials: Any, miss: float) -> Any:
    """Return an upper bound of a binomial rate, which is below the rate with probability `miss` at most.

    Source: Clopper.
    """
    return 1 - rate_below(np.asarray(trials) - np.asarray(hits), trials, miss)


def check_level(level: Any) -> float:
    """Return a confidence level in (0, 1) as a float; raise InputError for any other."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError("must lie between 0 and 1, such as 0.95", argument="level")
    return float(level)


def epsilon_of_rates(first: float, second: float, delta: float) -> float:
    """Return the epsilon that one event needs at least whose two rates are at least `first` and at most `second`."""
    if first - delta <= 0:
        return 0.0
    return math.inf if second <= 0 else max(0.0, math.log((first - delta) / second))


def guess_bound(
    right: int, guesses: int, *, miss: float = 1 - LEVEL, delta: float = 0.0, secrets: int | None = None, of: int = 2
) -> float:
    """Return a lower bound of epsilon from how many labels were guessed, which fails with probability `miss` at most.

    Each secret is one of `of` labels, drawn uniformly and independently of the others; the guesser saw everything but
    the draws and the labels, and might abstain. Then a guess is right with probability e^epsilon / (e^epsilon + of - 1)
    at most, whatever the others are, so that the number of right ones is below a binomial number.

    Args:
        right: guesses that were right.
        guesses: how many were made; chosen without a look at what is right.
        miss: the probability that the bound is above the true epsilon.
        delta: of the claim; above 0 only between two labels.
        secrets: labels that were drawn, guessed or not; `guesses` by default.
        of: labels between which was drawn.

    Guarantee (bound): for an (epsilon, delta)-DP mechanism the bound is above epsilon with probability `miss` at most.

    Raises:
        InputError: counts that cannot be, or a delta with more than two labels.

    Source: SteinkeAudit, Theorem 5.2, for two labels; `docs/proofs/audit.md` for more of them.

    Examples:
        >>> round(guess_bound(90, 100), 2)
        1.63
    """
    many = guesses if secrets is None else secrets
    if not 0 <= right <= guesses <= many or of < 2:
        raise InputError("must lie in 0 <= right <= guesses <= secrets", argument="guesses")
    if not 0 <= delta < 1 or (delta > 0 and of > 2):
        raise InputError("must lie in [0, 1), and be 0 where more than two labels are drawn from", argument="delta")
    if not delta:
        share = float(rate_below(right, max(guesses, 1), miss))
        return math.inf if share >= 1 else max(0.0, math.log(max((of - 1) * share / (1 - share), 1.0)))
    if not guesses or _p_value(right, guesses, 0.0, delta, many) > miss:
        return 0.0
    low, high = 0.0, 1.0
    while _p_value(right, guesses, high, delta, many) <= miss and high < 60:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _p_value(right, guesses, middle, delta, many) <= miss else (low, middle)
    return low


def _p_value(right: int, guesses: int, epsilon: float, delta: float, secrets: int) -> float:
    """Return a bound of the probability of so many right guesses between two labels under (epsilon, delta)-DP."""
    from scipy.stats import binom

    share = 1 / (1 + math.exp(-epsilon))
    # What delta adds: the largest mean mass of a window of counts just below the one that was seen.
    masses = binom.pmf(np.arange(right - 1, -1, -1), guesses, share)
    windows = np.cumsum(masses) / np.arange(1, right + 1) if right else np.zeros(1)
    return min(1.0, float(binom.sf(right - 1, guesses, share)) + 2 * secrets * delta * float(windows.max()))


def best_cut(one: Floats, two: Floats, miss: float, delta: float) -> tuple[float, float]:
    """Return the score from which on an event begins that tells two laws apart best, and what it guarantees.

    Args:
        one, two: scores of outputs of both laws, high where the first is likelier.
        miss, delta: as for the bound that will be computed on other outputs.
    """
    cuts = np.unique(np.concatenate([one, two]))
    if len(cuts) > 4096:
        cuts = cuts[np.linspace(0, len(cuts) - 1, 4096).astype(int)]
    firsts, seconds = (len(scores) - np.searchsorted(np.sort(scores), cuts) for scores in (one, two))
    low, high = rate_below(firsts, len(one), miss / 2), rate_above(seconds, len(two), miss / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        promised = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), 0.0)
    best = int(np.argmax(promised))
    return float(cuts[best]), float(promised[best])
