"""`labeldp choose`: which way to fit a table, from its features and numbers that are public."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.advice.plan import sample_features
from labeldp.fit import Advice, Command, advise, epsilon_of, trust_name
from labeldp.mechanisms import Domain
from labeldp.privacy import Argument, InputError
from labeldp.releases import counted
from labeldp.tables import TableEncoder, check_user, open_table
from labeldp.tables import user_column as owners

Progress = Callable[[str, float], None]


def choose(
    features: Any,
    domain: Domain,
    epsilon: Any,
    delta: Any = 0.0,
    trust: Any = "local",
    dry_run: bool = False,
    *,
    balance: Sequence[Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Advice:
    """Rank the ways to learn from private labels, from public quantities alone.

    Take the first option before anything is charged: choosing by results on private labels would be a release that
    nobody charged.

    Args:
        features: public: a table, an array of numbers (n, d), or only their size, the pair (n, d), if all are numbers.
        domain: the declared classes, or the range of numbers.
        epsilon: what may be spent.
        delta: what may be spent beside it; 0 for a pure guarantee.
        trust: "local" or "central": whether somebody may see the labels; or a `Trust`.
        dry_run: try the options on the features with made-up labels and real noise; it takes minutes.
        balance: of classes, for a dry run: the share of each, if it is public knowledge.
        seed: public seed of the dry run.
        progress: called with what is being rehearsed and the share of it that is done.

    Guarantee (public_advice, free): the advice is a function of the features, the number of records and the arguments;
        it costs no epsilon.

    Raises:
        InputError: an argument is wrong, or a dry run has too few rows.

    Example:
        >>> import labeldp as ldp
        >>> advice = ldp.advice.choose((30_000, 20), ldp.Classes(2), epsilon=0.1, delta=1e-6, trust="central")
        >>> advice.best.settings["trust"]
        'central'
    """
    _check_balance(balance, dry_run)
    if _is_size(features):
        if dry_run:
            raise InputError("needs the features themselves, not their number", argument="dry_run")
        records, dimension = features
        return advise(records, dimension, domain, epsilon, delta, trust)
    encoder, rows = _encoded(features)
    categories = int(encoder.categorical.sum())
    advice = advise(len(rows), rows.shape[1], domain, epsilon, delta, trust, categories=categories)
    if not dry_run:
        return advice
    return _tried(advice, encoder, rows, domain, epsilon, balance=balance, seed=seed, progress=progress)


def choose_file(
    path: str,
    domain: Domain,
    epsilon: Any,
    delta: Any = 0.0,
    trust: Any = "local",
    *,
    label: str,
    columns: str | None = None,
    id_column: str | None = None,
    user_column: str | None = None,
    per_user: int | None = None,
    dry_run: bool = False,
    balance: Sequence[Any] | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Rank the ways to fit a file by its feature columns; see `choose` and `sample_features`.

    With users the advice is for as many records and as much epsilon as theirs count for: see `counted`.

    Guarantee (no_label): no label is read: the advice is the same, to the byte, whatever the label column holds.
    """
    _check_balance(balance, dry_run)
    check_user(user_column, (label, id_column), per_user)
    sample = sample_features(path, label=label, columns=columns, id_column=id_column, user_column=user_column)
    named = {"--id": id_column, "--features": columns, "--user": user_column, "--per-user": per_user}
    options = [word for name, value in named.items() if value is not None for word in (name, str(value))]
    records, paid = sample.records, epsilon_of(epsilon)
    command = Command(Path(path).name, label, tuple(options), paid)
    if user_column is not None:
        if dry_run:
            raise InputError("does not go with --user: synthetic labels have no users", argument="dry_run")
        content = open_table(path).read([user_column])
        owners(content, user_column)  # refuses records that have none
        sizes = content.column(user_column).value_counts().field("counts").to_numpy(zero_copy_only=False)
        records, epsilon = counted(sizes, per_user, paid, delta, domain, trust_name(trust))
    task, categories = (domain, epsilon, delta, trust), int(sample.encoder.categorical.sum())
    advice = advise(records, len(sample.encoder.names), *task, command, categories)
    if not dry_run:
        return advice
    rows = sample.encoder.transform(sample.rows)
    return _tried(advice, sample.encoder, rows, domain, epsilon, balance=balance, progress=progress)


def _check_balance(balance: Sequence[Any] | None, dry_run: bool) -> None:
    if balance is not None and not dry_run:
        raise InputError("goes with ", Argument("dry_run"), ": synthetic labels have that balance", argument="balance")


def _tried(advice: Advice, encoder: TableEncoder, rows: NDArray[np.float64], *task: Any, **options: Any) -> Advice:
    """Return advice that was rehearsed on encoded rows."""
    from labeldp.advice.dry_run import DryRunRows, dry_run  # loads scikit-learn, which the rule does not need

    return dry_run(advice, DryRunRows(encoder, rows), *task, **options)


def _is_size(features: Any) -> bool:
    integers = (int, np.integer)
    return isinstance(features, tuple | list) and len(features) == 2 and all(isinstance(e, integers) for e in features)


def _encoded(features: Any) -> tuple[TableEncoder, NDArray[np.float64]]:
    """Return the encoder of a table or an array, and what it makes of it, shape (n, d)."""
    if isinstance(features, np.ndarray | list | tuple):
        try:
            array = np.asarray(features, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.zeros(0)
        if array.ndim != 2 or not array.size:
            raise InputError("must be a table, an array of numbers (n, d), or the pair (n, d)", argument="features")
        features = pa.table({f"x{number}": column for number, column in enumerate(array.T)})
    encoder = TableEncoder.fit(features)
    return encoder, encoder.transform(features)
