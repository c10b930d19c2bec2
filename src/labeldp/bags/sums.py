"""Sums of the labels of public bags, with integer noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from labeldp.bags.base import Bagged, ReleasedSums
from labeldp.mechanisms import Domain, gaussian_loss, smallest_stddev, word_stream
from labeldp.privacy import (
    Floats,
    InputError,
    Integers,
    PrivacyLoss,
    Public,
    RandomSource,
    check_choice,
    decimal,
    decimal_text,
    float_below,
    positive_epsilon,
    set_fields,
)
from labeldp.sampling import MIN_RATE, discrete_gaussian, discrete_laplace, gaussian_law, laplace_law

NOISES = "laplace", "gaussian"

MIN_STEPS = 1 << 10
"""Gaussian sums have at least so many steps in the range of a label: rounding costs a millionth of the variance."""


@final
@dataclass(frozen=True)
class BagSum(Bagged):
    """The sum of the labels of each bag, with integer noise.

    Use it with bags that are alike in their features: then a bag's mean says nearly what each label would, and its
    noise is that of one label divided by the size. With random bags, aggregation buys nothing.

    Args:
        domain, size, bags, features, seed: as in `Bagged`.
        noise: "laplace" for the pure guarantee, or "gaussian".
        epsilon: privacy parameter, positive.
        delta: of Gaussian noise, in (0, 1); 0 with Laplace noise.
        users: the user of each record, public integers, shape (n,), `Public(array, why="…")`: all labels of a user are
            protected together. Noise is set to what the user with most records in few bags moves; None protects each
            label by itself.

    Guarantee (approximate, pure, users): (epsilon, delta)-DP for each label, for the emitted bits, whatever the
        labels are: bags do not overlap, so a replaced label moves one sum by at most the width of the range. With
        Laplace noise delta is 0. With users, for all labels of each user.

    Raises:
        InputError: bags that overlap or are smaller than asked, or a parameter out of range.

    Source: Canonne, Algorithm 2 and Definition 1, for the noise. Proof: `docs/proofs/bags.md`.

    Examples:
        >>> from labeldp.mechanisms import Interval
        >>> from labeldp.privacy import Public
        >>> rows = Public(np.arange(256.0)[:, None], why="made up")
        >>> sums = BagSum(64, bags="median", noise="laplace", domain=Interval(0, 10), epsilon=1.0, features=rows)
        >>> sums.partition.count, round(sums.noise_stddev, 2)
        (4, 14.14)
    """

    contract: ClassVar[str] = "labeldp.testing.checks:check_bag_sums"
    plain: ClassVar[tuple[str, ...]] = ("size", "noise", "epsilon", "delta")
    takes_sizes: ClassVar[bool] = True
    takes_users: ClassVar[bool] = True
    noise: str = "laplace"
    _: KW_ONLY
    epsilon: float
    delta: float = 0.0
    users: InitVar[Any] = None
    stddev: int = field(init=False, default=0, repr=False, compare=False)

    def __post_init__(self, bags: Any, features: Any, seed: int, users: Any) -> None:
        super().__post_init__(bags, features, seed)
        if users is not None:
            self._protect(users)
        set_fields(self, epsilon=float_below(positive_epsilon(self.epsilon)))
        check_choice(self.noise, "noise", NOISES)
        delta = decimal(self.delta, "delta")
        set_fields(self, delta=float_below(delta) if delta > 0 else float(delta))
        if not 0 <= delta < 1:
            raise InputError("must lie in [0, 1), such as 1e-6", argument="delta")
        if (self.noise == "gaussian") != (delta > 0):
            raise InputError(
                'must lie in (0, 1) with noise="gaussian", and be 0 with noise="laplace"', argument="delta"
            )
        self._calibrate()

    @classmethod
    def calibrated(cls, size: int, *, epsilon: Any, delta: Any, **arguments: Any) -> Self:
        """Return the mechanism with Gaussian noise where a delta may be spent, else with Laplace noise."""
        noise = "gaussian" if decimal(delta, "delta") else "laplace"
        return cls(size, noise, epsilon=epsilon, delta=delta, **arguments)

    def _calibrate(self) -> None:
        """Compute the noise; refuse what no noise of 64 bits can guarantee."""
        if self.noise == "laplace" and self.rate < MIN_RATE:
            raise InputError("is too small for a grid as fine as this one: take fewer grid points", argument="epsilon")
        if self.records * self.label_steps >= 1 << 62:
            raise InputError("the sums do not fit into 64 bits: take a coarser grid of labels")
        if self.noise == "gaussian":
            exact = positive_epsilon(self.epsilon), decimal(self.delta, "delta")
            set_fields(self, stddev=smallest_stddev(self.sensitivity_square, self.moves[2], *exact))

    @property
    def fine(self) -> int:
        """Steps of the released sums in one step of the labels."""
        return 1 if self.noise == "laplace" else -(-MIN_STEPS // (self.domain.size - 1))

    @property
    def label_steps(self) -> int:
        """The steps by which one label can move a sum."""
        return self.fine * (self.domain.size - 1)

    @property
    def sensitivity(self) -> int:
        """The steps by which one label, or all of a user, can move all sums together."""
        return self.moves[0] * self.label_steps

    @property
    def sensitivity_square(self) -> int:
        """The squared length, in steps, of the move of all sums by one label, or by all of a user."""
        return self.moves[1] * self.label_steps**2

    @property
    def rate(self) -> Fraction:
        """Laplace noise i has probability proportional to e^(-rate |i|)."""
        return positive_epsilon(self.epsilon) / self.sensitivity

    @property
    def noise_stddev(self) -> float:
        """The standard deviation of the noise on each sum, in the unit of the labels."""
        steps = 2**0.5 / (2 * np.sinh(float(self.rate) / 2)) if self.noise == "laplace" else self.stddev
        return float(steps * float(self.domain.step_exact / self.fine))

    def privacy_loss(self) -> PrivacyLoss:
        """Pure epsilon, or a Gaussian loss and a failure below 10^-33 that stands for the integers."""
        if self.noise == "laplace":
            return PrivacyLoss.pure(self.epsilon)
        return gaussian_loss(self.sensitivity_square, self.stddev, self.moves[2])

    def parameters(self) -> dict[str, Any]:
        noise = {"noise": self.noise, "epsilon": str(positive_epsilon(self.epsilon))}
        gaussian = {"delta": str(decimal(self.delta, "delta")), "stddev": self.stddev} if self.delta else {}
        users = {} if self.owners is None else {"users": self.owners.digest, "moves": list(self.moves)}
        return {**super().parameters(), **noise, **gaussian, **users}

    @property
    def published(self) -> str:
        noise = "Gaussian" if self.noise == "gaussian" else "discrete Laplace"
        return f"label sums of {self.partition.count:,} bags and the bag membership ({noise} noise)"

    def sums(self, labels: Any) -> Integers:
        """Return the sums of the codes of each bag in fine steps, shape (bags,). They are private."""
        codes = self.domain.check_codes(labels)
        self.check_records(len(codes))
        return self.summed(codes.astype(np.int64)) * self.fine

    def released_sums(self, value: Any) -> ReleasedSums:
        if self.partition.of_record is None:
            raise InputError("release must say which record is in which bag; `labeldp.bags.fit_bag_sums` does without")
        return ReleasedSums.of_sums(self, self.totals(value), self.noise_stddev, np.ones(self.records))

    @classmethod
    def read_columns(
        cls, names: Sequence[str], column: Callable[[str], Floats], sums: str, spec: Mapping[str, Any]
    ) -> ReleasedSums:
        bags, domain = column("bag"), Domain.from_json(spec["domain"])
        budget: dict[str, Any] = {name: float(Fraction(spec[name])) for name in ("epsilon", "delta") if name in spec}
        public = Public(bags.astype(np.int64), why="the file says so")
        mechanism = cls(spec["size"], noise=spec["noise"], domain=domain, bags=public, **budget)
        if "moves" in spec:
            set_fields(mechanism, moves=tuple(int(move) for move in spec["moves"]))
            mechanism._calibrate()
        spread = mechanism.noise_stddev
        return ReleasedSums.of_records(
            domain, bags, np.ones(len(bags)), column(sums), lambda bags: np.full(bags.max() + 1, spread)
        )

    def randomize(self, labels: Any, *, rng: RandomSource, ids: Any = None) -> Integers:
        """Return noisy sums in fine steps, shape (bags,); record ids are not used. See `Mechanism.randomize`."""
        return self.release_counts(self.sums(labels)[:, None], rng=self.bound(rng))

    def release_counts(self, counts: Integers, *, rng: RandomSource) -> Integers:
        """Return noisy sums of sums, shape (bags, 1), in fine steps."""
        return counts[:, 0] + self.draw_noise(len(counts), rng=rng)

    def draw_noise(self, count: int, *, rng: RandomSource) -> Integers:
        """Draw noise in fine steps, shape (count,), without labels."""
        stream = word_stream(rng, count)
        laplace = self.noise == "laplace"
        return discrete_laplace(stream, self.rate) if laplace else discrete_gaussian(stream, self.stddev)

    def noise_law(self, edges: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(noise <= edges[0]), P(edges[0] < noise <= edges[1]), …, P(noise > edges[-1]): for tests and planning."""
        laplace = self.noise == "laplace"
        return laplace_law(float(self.rate), edges) if laplace else gaussian_law(self.stddev, edges)

    def totals(self, released: Any) -> NDArray[np.float64]:
        """Return noisy sums in the unit of the labels, unbiased, shape (bags,)."""
        steps = np.asarray(released, dtype=np.float64)
        return np.asarray(
            float(self.domain.low_exact) * self.sizes + float(self.domain.step_exact / self.fine) * steps,
            dtype=np.float64,
        )

    def means(self, released: Any) -> NDArray[np.float64]:
        """Return noisy mean labels, unbiased and not clipped, shape (bags,)."""
        return self.totals(released) / self.sizes

    def __str__(self) -> str:
        delta = f", delta = {decimal_text(self.delta)}" if self.delta else ""
        return f"BagSum of {self.size} records with {self.noise} noise, epsilon = {decimal_text(self.epsilon)}{delta}"
