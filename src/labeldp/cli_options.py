"""Options that several commands share."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import click

__all__ = ["bag_options", "domain_options", "private"]

P = ParamSpec("P")
R = TypeVar("R")


def private(command: Callable[P, R]) -> Callable[P, R]:
    """The options that every command on private labels shares."""
    options = [
        click.option(
            "--label", required=True, metavar="COLUMN", help="The column (of an .npz file the array) of private labels."
        ),
        click.option(
            "--ledger",
            required=True,
            type=click.Path(dir_okay=False, path_type=str),
            help="The ledger file, as secret as the labels.",
        ),
        click.option("--dataset", required=True, metavar="NAME", help="The dataset's name in the ledger."),
        click.option(
            "--revision", metavar="NAME", help="Names a new state of labels that changed; charged in addition."
        ),
    ]

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from labeldp.privacy import BudgetExceeded

        try:
            return command(*args, **kwargs)
        except BudgetExceeded as error:
            words = f"labeldp ledger add {kwargs['ledger']} --dataset {kwargs['dataset']}"
            raise BudgetExceeded(f"{error}. To change it: {words} --change --epsilon … --delta …") from None

    decorated: Any = run
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def domain_options(command: Callable[P, R]) -> Callable[P, R]:
    """The options that declare what labels can be."""
    options = [
        click.option("--classes", metavar="A,B,…|K", help="The class names in order, or K for codes 0 … K-1."),
        click.option("--range", "interval", metavar="LOW,HIGH", help="The range, where labels are numbers."),
        click.option("--grid", type=int, default=1025, show_default=True, help="Points of the range."),
        click.option("--clip", is_flag=True, help="Count numbers outside of the range as its nearest end."),
    ]
    decorated: Any = command
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def bag_options(command: Callable[P, R]) -> Callable[P, R]:
    """The options of mechanisms on bags; None where they were not given."""
    options = [
        click.option("--size", type=int, help="Bags: records in the smallest one."),
        click.option("--delta", metavar="NUMBER", help="Bags: the delta that this release costs; 0 for Laplace noise."),
        click.option("--bags", type=click.Choice(["median", "random"]), help="Bags of similar records, or at random."),
        click.option("--noisy", type=int, help="noisy-weighted-llp: labels of each bag that count as noisy."),
        click.option(
            "--weights", type=click.Choice(["rademacher", "gaussian"]), help="noisy-weighted-llp: its weights."
        ),
        click.option("--rows", type=int, help="weighted-lba: weighted sums of each bag."),
    ]
    decorated: Any = command
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
