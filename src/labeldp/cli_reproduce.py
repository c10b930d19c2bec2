"""The commands of `labeldp reproduce`: parse, call one workflow, print."""

from functools import partial
from typing import Any

import click

from labeldp.terminal import progress

__all__ = ["reproduce"]

EXAMPLES = """\b
Examples:
  labeldp reproduce multistage --dataset mnist --data DIR --epsilon 0.1,1 --method linear --seeds 3 --out runs
  labeldp reproduce multistage --dataset mnist --data DIR --epsilon 1,2 --method lp-1st,lp-2st --seeds 3 --out runs
  labeldp reproduce multistage --dataset mnist --data DIR --epsilon 1 --figure mixup --seeds 3 --out runs
"""


@click.group()
def reproduce() -> None:
    """Run published comparisons again, on your own copies of the data."""


@reproduce.command("multistage", epilog=EXAMPLES)
@click.option(
    "--dataset",
    required=True,
    metavar="NAME",
    help="mnist, fashion_mnist, kmnist, cifar10, cifar100, movielens, or npz for images of your own.",
)
@click.option("--data", required=True, type=click.Path(path_type=str), help="Your files; nothing is downloaded.")
@click.option("--classes", metavar="A,B,…|K", help="With --dataset npz: the class names, or K for codes 0 … K-1.")
@click.option("--epsilon", required=True, metavar="NUMBERS", help="One or more, separated by commas.")
@click.option("--delta", default="1e-6", show_default=True, metavar="NUMBER", help="Spent by linear and best alone.")
@click.option(
    "--method",
    default="lp-1st,lp-2st,linear,best",
    show_default=True,
    metavar="NAMES",
    help="One or more, separated by commas; all but linear need torch.",
)
@click.option(
    "--network",
    metavar="NAME",
    help="cnn, inception, resnet18, mlp or collaborative; by default cnn, for movielens collaborative.",
)
@click.option(
    "--preset",
    metavar="NAME",
    help="How networks are trained; by default quick for cnn and mlp, else what the paper takes for the data set.",
)
@click.option("--seeds", default=3, show_default=True, type=int, help="So many noises of everything.")
@click.option(
    "--figure",
    metavar="NAME",
    help="Runs a sweep instead of --method: split-temperature, mixup (of LP-2ST) or clusters.",
)
@click.option("--out", required=True, type=click.Path(path_type=str), help="A folder; it may collect several commands.")
def multistage(data: str, out: str, **options: Any) -> None:
    """Multi-stage training and linear models on images or ratings, measured on the test part.

    Every run is a simulation, with noise from public seeds, and leaves a JSON file in OUT/runs. The same command again
    finishes what was interrupted; a second one beside it shares the work. A table (Markdown) and figures (SVG) of all
    runs in OUT are written anew after each.
    """
    from labeldp.report import write_reproduced
    from labeldp.workflows import Grid, reproduce_multistage

    grid, tell = Grid.parse(**options), partial(click.echo, err=True)
    publish = partial(write_reproduced, folder=out)
    with progress("reading") as show:
        results = reproduce_multistage(grid, data=data, out=out, told=tell, publish=publish, progress=show)
    for path in publish(results):
        click.echo(path)
