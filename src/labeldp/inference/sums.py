"""Sums of a trusted curator: one mechanism with the sums for a question, and estimates from its release."""

from collections.abc import Callable
from typing import Any

import numpy as np

from labeldp.inference.catalog import RULES
from labeldp.inference.estimate import Estimate
from labeldp.inference.groups import Codes, PublicGroups, distinct, public_column, refuse_other_index
from labeldp.inference.intervals import (
    Ends,
    geometric_quantile,
    geometric_variance,
    mean_of_cells,
    more_units,
    noisy_binomial,
    normal_quantile,
    spread_of,
    student_within,
)
from labeldp.inference.released import NoisySums, entry_level, estimate_of, outcome_code, precision, treated_column
from labeldp.mechanisms import (
    MAX_RESOLUTION,
    Classes,
    Domain,
    GridRows,
    GridTotals,
    LaplaceHistogram,
    LaplaceMoment,
    LaplaceSum,
    Mechanism,
)
from labeldp.privacy import Floats, InputError, NotInvertibleError, Public, Release, check_choice, check_integer

BY_LOT = "arms were drawn by lot, and the treatment of one record does not change the outcome of another"

QUESTIONS = ("mean", "difference", "evaluate", "compare", "auc", "regression")

NOT_SEEN = "they were not computed from these labels"

SQUARE_SHARE = 0.15
"""The part of epsilon that goes to the sums of squared weights of a regression, or of squared ranks of an area."""

COUNT_SHARE = 0.25
"""The part of epsilon that goes to the number of positives, in the sums of an area; ranks have what is left."""


def plan_sums(
    question: str,
    domain: Domain,
    epsilon: float,
    *,
    groups: Public[Any] | None = None,
    treated: Public[Any] | None = None,
    predictions: Public[Any] | None = None,
    rival: Public[Any] | None = None,
    scores: Public[Any] | None = None,
    features: Public[Any] | None = None,
    records: int | None = None,
) -> Mechanism:
    """Return one mechanism with the sums that a question needs; release it by `Curator.release`.

    All groups share its epsilon: a record is in one of them alone.

    Args:
        question: "mean", with groups or none, also for quantiles; "difference", with treated, also for odds ratios;
            "evaluate", with predicted classes; "compare", with those of two models; "auc", with scores; "regression",
            of numbers or two classes on features.
        domain: of the labels, the same as the curator has.
        epsilon: cost of the release.
        groups: a public group for each record, for "mean", "difference" and "evaluate".
        treated: who was treated, true or false, or the arm of each record, by number or name.
        predictions: codes of predicted classes.
        rival: codes of the classes that the other model predicted.
        scores: larger where the second of two classes is likelier.
        features: shape (n, d), without a constant.
        records: the number of records, if no column has it.

    Raises:
        InputError: an unknown question, a missing column, or one that is not public.

    Examples:
        >>> import labeldp as ldp
        >>> mail = ldp.Public([True, False, True, False], why="drawn by lot")
        >>> plan_sums("difference", ldp.Classes(2), 1.0, treated=mail)
        LaplaceSum(domain=Classes(2), epsilon=1.0, partition=Groups(count=2))
    """
    check_choice(question, "question", QUESTIONS)
    columns = {"groups": groups, "treated": treated, "predictions": predictions, "rival": rival}
    columns |= {"scores": scores, "features": features}
    needed = {"difference": ["treated"], "evaluate": ["predictions"], "compare": ["predictions", "rival"]}
    needed |= {"auc": ["scores"], "regression": ["features"]}
    allowed = {*needed.get(question, []), *(["groups"] if question in ("mean", "difference", "evaluate") else [])}
    for name, column in columns.items():
        if column is not None and name not in allowed:
            raise InputError(f"must be left out of sums for {question!r}", argument=name)
        if (column is None and name in needed.get(question, [])) or not isinstance(column, Public | None):
            raise InputError(
                f'must be Public(array, why="…"): say why {name} do not depend on the private labels', argument=name
            )
    refuse_other_index(**columns)
    why = "; ".join(dict.fromkeys(column.why for column in columns.values() if column is not None)) or "all records"
    if question == "auc":
        assert scores is not None
        require_two(domain)
        rows = area_rows(np.asarray(scores.value))
        inputs = Public(rows, why=f"ranks of scores: {NOT_SEEN} ({why})")
        return LaplaceMoment(domain=domain, epsilon=epsilon, features=inputs, resolution=MAX_RESOLUTION)  # type: ignore[arg-type]
    if question == "regression":
        assert features is not None
        if isinstance(domain, Classes):
            require_two(domain)
        inputs = Public(influence_rows(design_matrix(features.value))[0], why=f"weights of least squares ({why})")
        return LaplaceMoment(domain=domain, epsilon=epsilon, features=inputs, resolution=MAX_RESOLUTION)  # type: ignore[arg-type]
    first = next((column for column in columns.values() if column is not None), None)
    count = check_integer(records, "records") if first is None else len(np.asarray(first.value))
    cells = PublicGroups.of(groups, count)
    if question == "difference":
        cells = cells.crossed(arms(treated, count))
    elif question == "evaluate":
        if not isinstance(domain, Classes):
            raise InputError("must be Classes, such as Classes(2)", argument="domain")
        cells = cells.crossed(predicted_cells(predictions, count, domain.size))
        why = f"{NOT_SEEN}: {why}"
    elif question == "compare":
        require_two(domain)
        cells = predicted_cells(predictions, count, 2).crossed(predicted_cells(rival, count, 2, "rival"))
        why = f"{NOT_SEEN}: {why}"
    codes = np.zeros(count, dtype=np.int64) if cells.codes is None else cells.codes
    kind = LaplaceHistogram if isinstance(domain, Classes) and domain.size > 2 else LaplaceSum
    return kind(domain=domain, epsilon=epsilon, groups=Public(codes, why=why))


def require_two(domain: Any) -> None:
    """Refuse labels that are not of two classes."""
    if not isinstance(domain, Classes) or domain.size != 2:
        raise InputError("must be two classes, such as Classes(('no', 'yes'))", argument="domain")


def exposures(exposed: Any, records: int, argument: str = "treated") -> PublicGroups:
    """Return two groups: not exposed, exposed."""
    codes = treated_column(exposed, records, argument).astype(np.int32)
    return PublicGroups(("0", "1"), codes, np.bincount(codes, minlength=2))


MOST_ARMS = 100


def arms(treated: Any, records: int) -> PublicGroups:
    """Return the arms of an experiment as groups: 0 and 1, or more numbers or names, sorted.

    Raises:
        InputError: numbers that are not whole, one arm, or more than `MOST_ARMS`.
    """
    column = public_column(treated, records, "treated")
    if column.dtype.kind in "buif" and np.isin(column, (0, 1)).all():
        return exposures(treated, records)
    names, codes = distinct(column)
    whole = column.dtype.kind != "f" or all(float(name).is_integer() for name in names)
    if not whole or not 2 <= len(names) <= MOST_ARMS or column.dtype.kind in "cmM":
        raise InputError(
            f"must be true or false, or the arm of each record by number or name, at most {MOST_ARMS}",
            argument="treated",
        )
    titles = tuple(f"{name:.0f}" if isinstance(name, float) else str(name) for name in names)
    return PublicGroups(titles, codes, np.bincount(codes, minlength=len(names)))


def from_control(cells: PublicGroups, control: Any, argument: str = "control") -> PublicGroups:
    """Return arms, or periods, with the control first: the one that is named, or the first one.

    Raises:
        InputError: none has the name.
    """
    name = cells.names[0] if control is None else str(int(control) if isinstance(control, bool | np.bool_) else control)
    if name not in cells.names:
        raise InputError(f"must be one of {', '.join(cells.names[:10])}", argument=argument)
    first = cells.names.index(name)
    order = [first, *(code for code in range(cells.count) if code != first)]
    places = np.argsort(order).astype(np.int32)
    codes = None if cells.codes is None else places[cells.codes]
    return PublicGroups(tuple(cells.names[code] for code in order), codes, cells.sizes[order])


def predicted_cells(predictions: Any, records: int, classes: int, argument: str = "predictions") -> PublicGroups:
    """Return groups of records by predicted class, one for each class."""
    codes = np.asarray(predictions.value if isinstance(predictions, Public) else predictions)
    if codes.shape != (records,) or codes.dtype.kind not in "biu" or codes.min() < 0 or codes.max() >= classes:
        raise InputError(f"must be codes from 0 to {classes - 1}, one for each record", argument=argument)
    codes = codes.astype(np.int32)
    return PublicGroups(tuple(map(str, range(classes))), codes, np.bincount(codes, minlength=classes))


def is_sums(release: Any) -> bool:
    """Whether a release holds sums over records."""
    mechanism = release.mechanism if isinstance(release, Release) else None
    return isinstance(mechanism, LaplaceSum | LaplaceHistogram | LaplaceMoment)


def sums_of_cells(sums: NoisySums, cells: PublicGroups) -> tuple[Floats, Codes]:
    """Return noisy sums or counts as integers, shape (cells, classes or 1), and how many draws each has, (cells,).

    Cells of the release add up to larger ones.

    Raises:
        InputError: cells that divide a cell of the release.
    """
    mechanism = sums.mechanism
    if isinstance(mechanism, LaplaceMoment):
        raise InputError("must be of sums that were planned for this question: see plan_sums", argument="release")
    planned = mechanism.partition.of_record
    codes = np.zeros(int(cells.sizes.sum()), dtype=np.int64) if cells.codes is None else cells.codes
    problem = InputError(
        "must be the columns that plan_sums was given, such as groups, or coarser ones: the sums are of these records",
        argument="release",
    )
    if planned is None or len(planned) != len(codes):
        raise problem
    released = np.asarray(sums.release.value, dtype=np.float64)
    table = released[:, None] if released.ndim == 1 else released
    present, firsts = np.unique(planned, return_index=True)
    cell = np.zeros(len(table), dtype=np.int64)
    cell[present] = codes[firsts]
    if not np.array_equal(cell[planned], codes):
        raise problem
    totals = np.zeros((cells.count, table.shape[1]))
    np.add.at(totals, cell[present], table[present])
    return totals, np.maximum(np.bincount(cell[present], minlength=cells.count), 1)


def cell_means(
    sums: NoisySums, cells: PublicGroups, level: float, *, within: bool = True
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return value, low, high, variance and sampling variance of each cell, shape (cells, classes or 1).

    Of two classes it is the share of the second one; of a number its mean, whose sampling variance is the largest that
    the range admits at a mean that is one standard deviation of the noise nearer to the middle.

    Args:
        sums: what was released.
        cells: those of the release, or coarser ones.
        level: coverage.
        within: whether the ends lie within what is possible. Ends of a part of a larger mean, or of a difference, must
            not: they reach as far from the value as the noise does.

    Source: BhatiaDavis for that variance.
    """
    mechanism, sizes = sums.mechanism, np.maximum(cells.sizes, 1)[:, None]
    (totals, terms), rate = sums_of_cells(sums, cells), float(mechanism.rate)
    spread = terms[:, None] * geometric_variance(rate)
    if sums.names:
        value = totals / sizes
        share = np.clip(value, 0, 1)
        sampling = np.maximum(share * (1 - share), 1 / sizes) / sizes
        low, high = noisy_binomial(totals, cells.sizes[:, None], rate, level, terms[:, None])
        if not within:
            reach = np.array([geometric_quantile(rate, level, count) for count in terms.tolist()])[:, None] / sizes
            occupied = cells.sizes[:, None] > 0
            low = np.where(occupied, np.minimum(low, value - reach), low)
            high = np.where(occupied, np.maximum(high, value + reach), high)
        value = np.where(cells.sizes[:, None] > 0, value, np.nan)
        return value, low, high, sampling + spread / sizes**2, sampling
    domain = mechanism.domain
    value = domain.low + domain.step * totals / sizes
    noise = domain.step**2 * spread / sizes**2
    ends = (float(domain.low), float(domain.high))
    middle = (ends[0] + ends[1]) / 2
    nearer = np.clip(value, *ends)
    nearer = nearer + np.clip(middle - nearer, -np.sqrt(noise), np.sqrt(noise))
    sampling = (nearer - ends[0]) * (ends[1] - nearer) / sizes
    low, high = student_within(value, sampling + noise, sizes, np.inf, ends, level)
    low, high = (np.where(cells.sizes[:, None] > 0, *pair) for pair in ((low, ends[0]), (high, ends[1])))
    if within:
        low, high = (np.clip(end, *ends) for end in (low, high))
    return np.where(cells.sizes[:, None] > 0, value, np.nan), low, high, sampling + noise, sampling


def mean_of_sums(
    release: Any, groups: Any, outcome: Any, users: Any, target: str, level: float, simultaneous: bool
) -> Estimate:
    """Return shares or means by group from noisy sums; see `mean`."""
    sums = NoisySums.of(release)
    refuse_users(users)
    cells = PublicGroups.of(groups, sums.mechanism.records)
    names, binary = sums.names, len(sums.names) == 2
    entry = entry_level(sums, cells, level, simultaneous, len(names) if len(names) > 2 and outcome is None else 1)
    value, low, high, variance, sampling = cell_means(sums, cells, entry)
    rule, conditions = RULES["share, sums" if names else "mean, sums"], sums.conditions
    if target == "records":
        unit = 1.0 if names else sums.mechanism.domain.step
        terms = sums_of_cells(sums, cells)[1]
        reach = np.array([geometric_quantile(float(sums.mechanism.rate), entry, count) for count in terms.tolist()])
        half = unit * (reach / np.maximum(cells.sizes, 1))[:, None]
        ends = (0.0, 1.0) if names else (sums.mechanism.domain.low, sums.mechanism.domain.high)
        low, high = np.clip(value - half, *ends), np.clip(value + half, *ends)
        variance, rule = variance - sampling, RULES["share of these records, sums"]
        conditions = sums.release.certificate.assumptions
    if binary:
        value, low, high = np.hstack([1 - value, value]), np.hstack([1 - high, low]), np.hstack([1 - low, high])
        variance, sampling = np.hstack([variance] * 2), np.hstack([sampling] * 2)
    noise, effective = (None, None)
    if target == "population" and names:  # the sum of numbers does not tell their variance
        noise, effective = precision(variance, sampling, np.maximum(cells.sizes, 1)[:, None])
    numbers = [value, low, high, variance, noise, effective]
    if names and outcome is not None:
        code = outcome_code(sums, outcome)
        numbers = [None if number is None else number[:, [code]] for number in numbers]
    axis = ("class", names if outcome is None else (str(outcome),))
    name = "mean" if not names else "share" if outcome is None else f"share of {outcome}"
    return estimate_of(
        sums, rule, name, (*cells.axes, axis), numbers[0], numbers[1], numbers[2], numbers[3], level, simultaneous,
        numbers[4], numbers[5], conditions, keep_axis=bool(names) and outcome is None, target=target,
    )  # fmt: skip


def cell_means_of(
    sums: NoisySums, crossed: PublicGroups, count: int, outcome: Any, level: float, *, within: bool
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Return what `cell_means` says of a class or a number in each column of each group, shape (G, columns).

    Args:
        sums: what was released.
        crossed: groups by columns.
        count: how many columns there are.
        outcome: the class; see `outcome_code`.
        level: coverage.
        within: see `cell_means`.
    """
    code = outcome_code(sums, outcome) if sums.names else 0
    value, low, high, variance, sampling = (
        number[:, 0 if number.shape[1] == 1 else code].reshape(-1, count)
        for number in cell_means(sums, crossed, level, within=within)
    )
    if len(sums.names) == 2 and code == 0:
        value, low, high = 1 - value, 1 - high, 1 - low
    return value, low, high, variance, sampling


def quantile_of_sums(
    release: Any, at: float, groups: Any, users: Any, level: float, simultaneous: bool
) -> tuple[NoisySums, PublicGroups, Floats, Floats, Floats]:
    """Return cumulated shares of ordered classes by group, with their ends, shape (G, K).

    The classes up to one are counted, or those after it, whichever are fewer: they have less noise.
    """
    sums = NoisySums.of(release)
    refuse_users(users)
    if not sums.names:
        raise NotInvertibleError("sums of numbers have no quantiles: declare classes in their order, such as bins")
    cells = PublicGroups.of(groups, sums.mechanism.records)
    entry = entry_level(sums, cells, level, simultaneous)
    sizes, classes = np.maximum(cells.sizes, 1)[:, None], len(sums.names)
    counts, draws = sums_of_cells(sums, cells)
    if counts.shape[1] == 1:
        counts = np.hstack([sizes - counts, counts])
    up, down = np.cumsum(counts, axis=1), sizes - np.cumsum(counts[:, ::-1], axis=1)[:, ::-1] + counts
    terms = np.minimum(np.arange(1, classes + 1), np.arange(classes - 1, -1, -1))
    below = np.where(np.arange(1, classes + 1) <= terms, up, down) / sizes
    sampling = at * (1 - at) / sizes  # a cumulated share is tested against `at` alone
    half = normal_quantile(entry) * np.sqrt(
        sampling + draws[:, None] * terms * geometric_variance(float(sums.mechanism.rate)) / sizes**2
    )
    return sums, cells, below, below - half, below + half


def odds_of_sums(
    release: Any, exposed: Any, outcome: Any, users: Any
) -> tuple[NoisySums, Floats, Callable[[float], Ends]]:
    """Return the shares of a class without and with an exposure, shape (2,), and what gives their ends at a level."""
    sums = NoisySums.of(release)
    refuse_users(users)
    if not sums.names:
        raise InputError("must be of classes: the outcome is a number", argument="release")
    cells = exposures(exposed, sums.mechanism.records)
    outcome_code(sums, outcome)

    def numbers_at(level: float) -> Any:
        return [number[0] for number in cell_means_of(sums, cells, 2, outcome, level, within=True)[:3]]

    return sums, numbers_at(0.5)[0], lambda level: numbers_at(level)[1:]


def comparison_of_sums(release: Any, codes: Any, users: Any, reasons: Any, level: float, target: str) -> Estimate:
    """Return by how much more often one model is right, from the noisy counts of records on which two differ."""
    sums = NoisySums.of(release)
    refuse_users(users)
    require_two(sums.mechanism.domain)
    records = sums.mechanism.records
    cells = predicted_cells(codes[0], records, 2).crossed(predicted_cells(codes[1], records, 2))
    numbers = [number[:, 0] for number in cell_means(sums, cells, level, within=False)]
    part = cells.sizes / records
    # the second class makes the first model right in cell 2 and the second one in cell 1; they agree in 0 and 3
    value, low, high = (2 * number - 1 for number in numbers[:3])
    gains = (
        np.array([0, -value[1], value[2], 0]),
        np.array([0, -high[1], low[2], 0]),
        np.array([0, -low[1], high[2], 0]),
    )
    gain, lower, upper, moved = mean_of_cells(gains, cells.sizes, level, (-1.0, 1.0), target)
    variance, sampling = (4 * part[1:3] ** 2 @ number[1:3] + moved for number in numbers[3:])
    noise, effective = precision(variance, sampling, np.asarray(records))
    reach = part[1] + part[2] if target == "records" else 1.0
    return estimate_of(
        sums, RULES["comparison, sums"], "difference of accuracies", (), gain, max(lower, -reach),
        min(upper, reach), variance, level, False, noise, effective, (*reasons, *sums.conditions), target=target,
    )  # fmt: skip


def refuse_users(users: Any) -> None:
    """Refuse users of noisy sums: a sum does not show the dependence of a user's records."""
    if users is not None:
        raise InputError("must be left out: sums do not tell whose records they are of", argument="users")


RANK_SHARE = 2 * (1 - COUNT_SHARE - SQUARE_SHARE)


def area_rows(scores: Any) -> Floats:
    """Return the public rows whose sums over positives give an area, shape (n, 3).

    They are a constant, the centered midrank, and its square, which bounds the variance.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.all(np.isfinite(values)):
        raise InputError("must be one finite number for each record", argument="scores")
    ordered = np.sort(values)
    ranks = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2 / len(values)
    middle = ranks - 0.5
    return np.column_stack([np.full(len(values), COUNT_SHARE), RANK_SHARE * middle, 4 * SQUARE_SHARE * middle**2])


def second_class_sums(sums: NoisySums) -> tuple[Floats, float]:
    """Return the noisy sums of rows over records of the second class, or weighted by labels, and their noise variance.

    With two classes the sum of all rows is public. So both columns have the same information, and their mean has half
    the variance.
    """
    mechanism = sums.mechanism
    moment, square = mechanism.moment(sums.release.value), mechanism.noise_stddev**2
    if not sums.names:
        return moment[:, 0], square
    return (moment[:, 1] + mechanism.rows.total * mechanism.rows.unit - moment[:, 0]) / 2, square / 2


def area_of_sums(release: Any, scores: Floats, level: float) -> Estimate:
    """Return the area under the ROC curve from a count and two rank sums."""
    sums = NoisySums.of(release)
    rows = area_rows(scores)
    if not isinstance(sums.mechanism, LaplaceMoment) or sums.mechanism.rows != on_grid(rows):
        raise InputError("must be of plan_sums('auc', …) with the same scores", argument="release")
    totals, square = second_class_sums(sums)
    records, rule = len(scores), RULES["area under the ROC curve, sums"]
    squares = float(rows[:, 2].sum())
    value, low, high, variance = (float(number) for number in area_ends(totals, squares, square, records, level))
    spread = None if np.isnan(value) else variance
    return estimate_of(sums, rule, "area under the ROC curve", (), value, low, high, spread, level, False)


AREAS = np.linspace(0, 1, 2001)
"""Areas that are tested."""


def area_ends(
    totals: Any, squares: float, square: float, records: int, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return value, low, high and variance of areas from noisy sums of `area_rows`, each shape (m,).

    With ranks r in (-1/2, 1/2) the area is 1/2 + n sum(y r) / (m (n - m)). Areas are tested on a grid, each with the
    largest sampling variance that any law of scores can have there. The chance that a random record of the other class
    scores lower lies in [0, 1] and has the mean A, so its variance is at most A (1 - A). It is also at most that of
    the rank r divided by the squared share of the other class: r mixes the two chances, and both grow with the score.
    Where the count is not between 1 and n - 1, the value is NaN, and no area is refused.

    Args:
        totals: noisy sums of the three columns over records of the second class, shape (3, ...).
        squares: the sum of the third column over all records.
        square: the variance of the noise.
        records: how many there are.
        level: coverage.

    Source: DeLong for the variance by these chances.
    """
    shares = (COUNT_SHARE, RANK_SHARE, 4 * SQUARE_SHARE)
    positives, total, squared = (
        np.asarray(number, dtype=np.float64)[..., None] / share for number, share in zip(totals, shares, strict=True)
    )
    count_noise, rank_noise, more = square / shares[0] ** 2, square / shares[1] ** 2, np.sqrt(square) / shares[2]
    inside = (positives >= 1) & (positives <= records - 1)
    positives = np.where(inside, positives, 1.0)
    pairs = positives * (records - positives)
    fewer = np.clip(positives - np.sqrt(count_noise), 1.0, records - 1)
    negatives, chance = np.maximum(records - positives - np.sqrt(count_noise), 1.0), AREAS * (1 - AREAS)
    of_positives, of_negatives = (
        np.maximum((part + more) / size - (total / size) ** 2, 0) * (records / other) ** 2
        for part, size, other in ((squared, fewer, negatives), (squares / shares[2] - squared, negatives, fewer))
    )
    sampling = (
        np.minimum(chance, of_positives) / fewer
        + np.minimum(chance, of_negatives) / negatives
        + chance / (fewer * negatives)
        + more_units(level) * (1 / fewer**2 + 1 / negatives**2)  # low scores that these records do not have
    )
    spread = (
        sampling * pairs**2 + records**2 * rank_noise + ((AREAS - 0.5) * (records - 2 * positives)) ** 2 * count_noise
    )
    holds = np.abs(records * total - (AREAS - 0.5) * pairs) <= normal_quantile(level) * np.sqrt(spread)
    holds |= ~(inside & holds.any(axis=-1, keepdims=True))
    value = np.clip(0.5 + records * total / pairs, 0, 1)
    at = np.rint(value * (len(AREAS) - 1)).astype(np.int64)
    variance = np.take_along_axis(spread / pairs**2, at, -1)[..., 0]
    low, high = AREAS[holds.argmax(axis=-1)], AREAS[::-1][holds[..., ::-1].argmax(axis=-1)]
    return np.where(inside, value, np.nan)[..., 0], low, high, variance


def on_grid(rows: Floats) -> GridRows | GridTotals:
    """Return rows as `plan_sums` gives them to its mechanism."""
    return GridRows.of(Public(rows, why=NOT_SEEN), None, MAX_RESOLUTION, None)


def design_matrix(features: Any) -> Floats:
    """Return public features with a constant before them, shape (n, 1 + d).

    Raises:
        InputError: not finite numbers, or columns that depend on each other.
    """
    table = np.asarray(features.value if isinstance(features, Public) else features)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.dtype.kind not in "biuf" or not np.all(np.isfinite(table)):
        raise InputError("must be finite numbers, shape (n, d)", argument="features")
    design = np.column_stack([np.ones(len(table)), table]).astype(np.float64)
    if orthonormal(design) is None:
        raise InputError("must have columns that do not depend on each other, and no constant", argument="features")
    return design


def orthonormal(design: Floats) -> tuple[Floats, Floats] | None:
    """Return columns U with the span of a design and UᵀU = n, and the A with coefficients A g of the design for g of U.

    So results do not depend on the unit or the origin of a column. Return None if columns depend on each other.

    Args:
        design: a constant and other columns, shape (n, d).
    """
    count, means = len(design), design[:, 1:].mean(axis=0)
    centered = design[:, 1:] - means
    widths = np.sqrt((centered**2).mean(axis=0))
    if count < design.shape[1] or (widths <= 1e-13 * np.abs(means)).any():
        return None
    centered /= widths
    base, triangle = np.linalg.qr(np.column_stack([np.ones(count), centered]))
    if np.linalg.matrix_rank(triangle, tol=1e-9 * np.sqrt(count)) < design.shape[1]:
        return None
    back = np.eye(design.shape[1])  # from coefficients of standardized columns
    back[0, 1:], back[1:, 1:] = -means / widths, np.diag(1 / widths)
    return base * np.sqrt(count), back @ np.linalg.inv(triangle) * np.sqrt(count)


def influence_rows(design: Floats) -> tuple[Floats, Floats, Floats]:
    """Return public rows (n, 2 d - 1), the scales of their columns, (2 d - 1,), and squared weights, shape (n, d).

    The rows are the weights of the mean label and of the slopes of least squares, and the squares of the latter, each
    column scaled to at most its part of epsilon. The mean stands for the constant: so rows, and noise, depend neither
    on the unit nor on the origin of a feature.
    """
    basis = orthonormal(design)
    assert basis is not None
    weights = basis[0] @ basis[1].T / len(design)
    weights[:, 0] = 1 / len(design)
    squares = weights**2
    rows = np.hstack([weights, squares[:, 1:]])
    parts = np.repeat([1 - SQUARE_SHARE, SQUARE_SHARE], [design.shape[1], design.shape[1] - 1])
    scales = np.abs(rows).max(axis=0) / parts
    return rows / scales, scales, squares


def regression_of_sums(release: Any, features: Any, level: float) -> tuple[NoisySums, Floats, Floats]:
    """Return least-squares coefficients from noisy sums, with a bound of their variance.

    With labels y in [0, 1], fitted values f and squared weights w, the sampling variance is the sum of w (y - f)². It
    is bounded for every law of y: by y² ≤ y from the released sum of w y, from that of w (1 - y), or by the largest
    (y - f)² that is possible. The smallest bound is taken. The constant is the mean label less the slopes times the
    means of the features; its standard error is at most the sum of theirs.
    """
    sums, design = NoisySums.of(release), design_matrix(features)
    rows, scales, squares = influence_rows(design)
    mechanism, width = sums.mechanism, design.shape[1]
    if not isinstance(mechanism, LaplaceMoment) or mechanism.rows != on_grid(rows):
        raise InputError("must be of plan_sums('regression', …) with the same features", argument="release")
    totals, square = second_class_sums(sums)
    totals, noises = totals * scales, square * scales**2
    value, middles, domain = totals[:width].copy(), design[:, 1:].mean(axis=0), mechanism.domain
    low, high = (0.0, 1.0) if isinstance(domain, Classes) else (float(domain.low), float(domain.high))
    fitted = (value[0] + (design[:, 1:] - middles) @ value[1:] - low) / (high - low)
    total_weight = squares.sum(axis=0)
    # the sum of all labels, each with the square of 1 / n, and the released sums
    sizes = np.concatenate([[len(design)], np.ones(width - 1)])
    weighted, more = (np.append(number[0], number[width:]) / sizes for number in (totals, np.sqrt(noises)))
    upper, more = (weighted - low * total_weight) / (high - low), more / (high - low)
    one, other = np.clip(upper + more, 0, total_weight), np.clip(total_weight - upper + more, 0, total_weight)
    bounds = (
        one * max(1 - 2 * float(fitted.min()), 0) + squares.T @ fitted**2,
        other * max(2 * float(fitted.max()) - 1, 0) + squares.T @ (1 - fitted) ** 2,
        squares.T @ np.maximum(np.abs(fitted), np.abs(1 - fitted)) ** 2,
    )
    sampling = (np.minimum.reduce(bounds) + more_units(level) * spread_of(squares)[1]) * (high - low) ** 2
    errors = np.sqrt(sampling + noises[:width])
    value[0] -= middles @ value[1:]
    errors[0] += np.abs(middles) @ errors[1:]
    return sums, value, errors**2
