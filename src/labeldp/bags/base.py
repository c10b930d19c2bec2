"""Public bags of records, mechanisms on them, and released sums over them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import Domain, Groups, GroupSizes, Mechanism, PublicInput, public_value, real_matrix
from labeldp.privacy import (
    UNTIL_MADE,
    Floats,
    InputError,
    PrivacyLoss,
    Public,
    Release,
    Trust,
    check_integer,
    set_fields,
)

Keys = NDArray[np.int64]

MAX_RECORDS = 1 << 40

PROBED_ROWS = 1 << 12
"""Records, regularly spaced, by which the feature that spreads widest is found."""


@dataclass(frozen=True)
class Bagged(Mechanism):
    """A mechanism of a trusted curator on sums over public, disjoint bags of records.

    No record is left out: of n records there are ⌊n / size⌋ bags, and where n is no multiple of size some are larger.

    Args:
        domain: `Interval`, or two classes, which count as 0 and 1.
        size: the smallest number of records in a bag.
        bags: "median": records with similar features share a bag (`median_bags`); "random": drawn from the seed;
            or a bag number for each record, shape (n,), `Public(array, why="…")` or a `Release`.
        features: a public row for each record, shape (n, d), `Public(array, why="…")` or a `Release`; not needed where
            bags are given.
        seed: of random bags, public.
    """

    size: int
    _: KW_ONLY
    bags: InitVar[Any] = "median"
    features: InitVar[Any] = None
    seed: InitVar[int] = 0
    partition: Any = field(init=False, default=UNTIL_MADE)
    owners: Groups | None = field(init=False, default=None, repr=False)
    moves: tuple[int, int, int] = field(init=False, default=(1, 1, 1), repr=False, compare=False)
    """Maxima over users of: their records, the sum of squares of their records by bag, and their bags."""
    trust: ClassVar[Trust] = Trust.CENTRAL
    sums_features: ClassVar[bool] = False
    takes_sizes: ClassVar[bool] = False
    """Whether the sizes of the bags are enough, because workers hold the records."""
    takes_users: ClassVar[bool] = False
    """Whether all labels of a user may be protected together."""

    def __post_init__(self, bags: Any, features: Any, seed: int) -> None:
        if not isinstance(self.domain, Domain) or not self.domain.has_sums:
            raise InputError("must be Interval, such as Interval(0, 100), or two classes", argument="domain")
        set_fields(self, size=check_integer(self.size, "size", high=MAX_RECORDS))
        source = bags_of(bags, self.size, features, seed)
        partition = _checked(source, self.size)
        if partition.of_record is None and not self.takes_sizes:
            raise InputError("must be a bag number for each record, shape (n,)", argument="bags")
        released = (PublicInput.of(features, "features"),) if isinstance(features, Release) else ()
        set_fields(self, partition=partition, public_inputs=(PublicInput.of(source, "bags"), *released))

    def _protect(self, users: Any) -> None:
        """Set the public user of each record, shape (n,), and how far all labels of one user can move the sums.

        Raises:
            InputError: users are not those of the records.

        Source: `docs/proofs/users-and-cohorts.md`.
        """
        owners, bags = Groups.of_users(users), self.partition.of_record
        if bags is None or owners.records != self.records:
            raise InputError("must be one non-negative integer for each record", argument="users")
        pairs, counts = np.unique(owners.of_record * self.partition.count + bags, return_counts=True)
        whose = pairs // self.partition.count
        squares = np.zeros(owners.count, dtype=np.int64)
        np.add.at(squares, whose, counts**2)
        moves = owners.most, int(squares.max()), int(np.bincount(whose).max())
        inputs = (*self.public_inputs, PublicInput.of(users, "users"))
        set_fields(self, owners=owners, moves=moves, public_inputs=inputs)

    @property
    def protected(self) -> Groups | None:
        return self.owners

    def user_loss(self, users: Groups) -> PrivacyLoss:
        """See `Mechanism.user_loss`; a refusal names the mechanisms on bags that can be made for users."""
        if self.protected is None and self.privacy_loss().max_loss is None:
            raise InputError(
                f"{type(self).__name__} has no users and protects single records only: give users=curator.users to "
                "BagSum, or to NoisyWeightedLLP with signs as weights"
            )
        return super().user_loss(users)

    @property
    def records(self) -> int:
        return int(self.partition.records)

    @property
    def sizes(self) -> Keys:
        """Records in each bag, public, shape (bags,)."""
        return self.partition.sizes

    @property
    def width(self) -> Fraction:
        """The width of the range of the labels, exactly."""
        return self.domain.step_exact * (self.domain.size - 1)

    @classmethod
    @abstractmethod
    def calibrated(cls, size: int, *, epsilon: Any, delta: Any, **arguments: Any) -> Self:
        """Return the mechanism with as little noise as (epsilon, delta) allows; `arguments` are of the constructor."""

    def parameters(self) -> dict[str, Any]:
        return {"size": self.size, "bags": self.partition.digest}

    def packed(self) -> dict[str, NDArray[Any] | None]:
        return {"bags": self.partition.of_record}

    @classmethod
    def limited(cls, arrays: Mapping[str, NDArray[Any]], domain: Domain) -> Mapping[str, NDArray[Any]]:
        """Refuse bag numbers that no partition without empty bags has."""
        bags = arrays["bags"]
        if bags.dtype.kind not in "iu" or int(bags.max(initial=0)) >= max(1, len(bags)):
            raise InputError("must be integers below the number of records", argument="bags")
        return arrays

    def summed(self, values: Any) -> Keys:
        """Return the sum of the integers (n,) of each bag, shape (bags,)."""
        if self.partition.of_record is None:
            raise InputError("bags are known by their sizes: give sums to release_counts, and not labels")
        total = np.zeros(self.partition.count, dtype=np.int64)
        np.add.at(total, self.partition.of_record, values)
        return total

    @abstractmethod
    def released_sums(self, value: Any) -> "ReleasedSums":
        """Return the released sums in the unit of the labels."""

    def column_names(self, record: str, features: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the columns of a table of this release, but for the sums, which come last.

        Args:
            record: the name of the column that says which record a row is.
            features: the names of the features.
        """
        return (record, "bag")

    def column_values(self, value: Any, names: Any, places: NDArray[np.intp]) -> list[Any]:
        """Return the columns of a table of this release in order: a row for each record, the sum of its bag last.

        Args:
            value: what was released.
            names: of the records, shape (n,), in the order of the rows.
            places: the record of each row, shape (n,).
        """
        bags = self.partition.of_record[places]
        return [names, bags, self.released_sums(value).sums[bags]]

    @classmethod
    @abstractmethod
    def read_columns(
        cls, names: Sequence[str], column: Callable[[str], Floats], sums: str, spec: Mapping[str, Any]
    ) -> "ReleasedSums":
        """Return the sums in a table of such a release.

        Args:
            names: of all its columns.
            column: returns a column as numbers, and refuses one that is not there or holds something else.
            sums: the name of the column of sums.
            spec: the spec of the mechanism.

        Raises:
            InputError: a column does not fit.
            KeyError, TypeError, ValueError: the spec is damaged.
        """


def bags_of(bags: Any, size: int, features: Any, seed: int) -> Any:
    """Make bags by name; return bag numbers unchanged.

    Raises:
        InputError: another name, or no features.
    """
    if not isinstance(bags, str):
        return bags
    if bags not in ("median", "random"):
        raise InputError('must be "median", "random", or bag numbers as Public(array, why="…")', argument="bags")
    if features is None:
        raise InputError(
            'features must be given, such as Public(array, why="…"): one row for each record that is put into a bag; '
            'or bags, such as random_bags(n, size) or your own bag numbers as Public(array, why="…")'
        )
    rows = public_value(features, "features")
    return median_bags(features, size) if bags == "median" else random_bags(len(rows), size, seed=seed)


def _checked(bags: Any, size: int) -> Groups | GroupSizes:
    """Return bags as groups, none of them too small.

    Raises:
        InputError: bags may overlap, or one is smaller than asked.
    """
    if (listed := _listed(public_value(bags, "bags"))) is not None:
        if len(np.unique(listed)) < len(listed):
            raise InputError("must not overlap: a record in two bags pays twice", argument="bags")
        raise InputError(
            "must be one bag number for each record, shape (n,), so that no two can overlap", argument="bags"
        )
    groups = Groups.of(bags, "bags")
    if not groups.count or groups.sizes.min() < size:
        raise InputError(f"must hold at least size = {size} records each: one is smaller", argument="bags")
    return groups


def _listed(value: Any) -> NDArray[Any] | None:
    """Return the records in a list of bags, each a list of records of any length; None where there is no such list."""
    try:
        array = np.asarray(value)
    except ValueError:  # of different lengths
        return np.concatenate([np.ravel(bag) for bag in value])
    return array.ravel() if array.ndim > 1 else None


def random_bags(records: int, size: int, *, seed: int = 0) -> Public[Keys]:
    """Draw ⌊records / size⌋ bags from a public seed; their sizes differ by at most one.

    Examples:
        >>> np.bincount(random_bags(7, 3, seed=0).value).tolist()
        [4, 3]
    """
    count = _count(records, size)
    of_record = np.empty(records, dtype=np.int64)
    order = np.random.default_rng(check_integer(seed, "seed", low=0)).permutation(records)
    of_record[order] = np.arange(records) * count // records
    return Public(of_record, why=f"bags were drawn from the public seed {seed}")


def median_bags(features: Any, size: int) -> Any:
    """Put records with similar features into bags: halves of halves, cut at the median of the widest feature.

    Equal values may lie on both sides of a cut, so that bags are equally large: the smallest has `size` records, and of
    n records there are ⌊n / size⌋ bags. Spread is measured in quantiles, so that units do not matter; NaN counts as
    the median of its column.

    Args:
        features: shape (n, d), `Public(array, why="…")` or a `Release`.
        size: the smallest bag.

    Returns:
        A bag number for each record, shape (n,), as public as the features.

    Examples:
        >>> median_bags(Public(np.array([[4.0], [1.0], [3.0], [2.0], [9.0]]), why="made up"), 2).value.tolist()
        [1, 0, 1, 0, 1]
    """
    table = real_matrix(public_value(features, "features"), "features must be an array of numbers, shape (n, d)")
    of_record = halved_at_medians(table.T, table.shape, size)
    if isinstance(features, Release):
        return features.map(lambda _: of_record)
    return public_halves(of_record, features.why)


def public_halves(bags: Keys, why: str) -> Public[Keys]:
    """Return bags that `halved_at_medians` made of features, which are public for the reason `why`."""
    return Public(bags, why=f"bags were halved at medians of the features: {why}")


def halved_at_medians(columns: Iterable[Floats], shape: tuple[int, ...], size: int) -> Keys:
    """Return the bag of each record as `median_bags` makes it, of features that come one column after the other.

    Args:
        columns: of each feature the values, shape (n,).
        shape: (n, d), records and features.
        size: the smallest bag.
    """
    records, number = shape
    of_record = np.empty(records, dtype=np.int64)
    waiting, done = [(np.arange(records), _count(records, size))], 0
    places = np.empty((number, records), dtype=np.float32)
    for column, ranks in zip(columns, places, strict=True):
        ranks[:] = _places(column)
    while waiting:
        rows, count = waiting.pop()
        if count == 1:
            of_record[rows] = done
            done += 1
            continue
        probe = rows[:: -(-len(rows) // PROBED_ROWS)]
        widest = places[:, probe].std(axis=1).argmax()
        rows = rows[np.argsort(places[widest][rows], kind="stable")]
        first = count // 2
        cut = len(rows) * first // count
        waiting += [(rows[cut:], count - first), (rows[:cut], first)]
    return of_record


def _count(records: int, size: int) -> int:
    """Return the number of bags; raise InputError if records are too few."""
    if records < check_integer(size, "size", high=MAX_RECORDS):
        raise InputError(f"must be at most the number of records, {records}", argument="size")
    return records // size


def _places(column: Floats) -> NDArray[np.float32]:
    """Return each value as the share of values of its column below it, ties in the middle, shape (n,)."""
    shares = np.full(len(column), 0.5, dtype=np.float32)
    there = np.flatnonzero(~np.isnan(column))
    _, values, counts = np.unique(column[there], return_inverse=True, return_counts=True)
    shares[there] = ((np.cumsum(counts) - counts / 2) / max(len(there), 1))[values]
    return shares


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Released sums over bags, in the unit of the labels: the input of learners.

    Args:
        domain: of the labels.
        records: how many there are.
        sizes: records in the bag of each sum, shape (r,).
        sums: of labels with their noise, shape (r,); with secret weights of labels less the middle of their range.
        noise_stddev: of each sum, shape (r,).
        bags: the sum that each record is in, shape (n,); None with secret weights.
        weights: of each record, shape (n,); None with secret weights.
        noisy: which records count as noisy, shape (n,); None where no record has noise of its own, and in files.
        features: with secret weights the weighted sums of features, shape (r, d); else None.
    """

    domain: Domain
    records: int
    sizes: Floats = field(repr=False)
    sums: Floats = field(repr=False)
    noise_stddev: Floats = field(repr=False)
    bags: Keys | None = field(default=None, repr=False)
    weights: Floats | None = field(default=None, repr=False)
    noisy: NDArray[np.bool_] | None = field(default=None, repr=False)
    features: Floats | None = field(default=None, repr=False)

    @classmethod
    def of(cls, release: Any) -> "ReleasedSums":
        """Return what a curator or a file released.

        Raises:
            InputError: no release of bags.
        """
        if isinstance(release, Release):
            if isinstance(release.value, cls):
                return release.value
            if isinstance(release.mechanism, Bagged):
                return release.mechanism.released_sums(release.value)
        raise InputError(
            "release must be what a curator released by BagSum, NoisyWeightedLLP or WeightedLBA, or read_bags read"
        )

    @classmethod
    def of_sums(
        cls, mechanism: Any, sums: Floats, noise_stddev: Any, weights: Floats, noisy: Any = None
    ) -> "ReleasedSums":
        """Return the sums of a mechanism with public bags and weights."""
        sizes, spread = mechanism.sizes.astype(np.float64), np.broadcast_to(noise_stddev, sums.shape)
        bags = mechanism.partition.of_record
        return cls(mechanism.domain, mechanism.records, sizes, sums, spread, bags, weights, noisy)

    @classmethod
    def of_records(cls, domain: Domain, bags: Floats, weights: Floats, sums: Floats, spread: Any) -> "ReleasedSums":
        """Return the sums in a table with a row for each record: its bag, its weight and the sum of its bag.

        Args:
            domain: of the labels.
            bags, weights, sums: shape (n,).
            spread: returns the standard deviation of the noise on each sum, given the bags.

        Raises:
            InputError: bags that are not numbered 0, 1, ….
        """
        numbers = bags.astype(np.int64)
        distinct, firsts = np.unique(numbers, return_index=True)
        if not np.array_equal(distinct, np.arange(len(distinct))):
            raise InputError("the file must have the released column 'bag' of bag numbers")
        sizes = np.bincount(numbers).astype(np.float64)
        return cls(domain, len(bags), sizes, sums[firsts], spread(numbers), numbers, weights)

    @property
    def plain(self) -> bool:
        """Whether the sums have no weights, so that they have means."""
        return self.weights is not None and bool((self.weights == 1).all())
