"""python -m papers multistage, rates, aggregation, online, peers: options and words."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

import click

from labeldp.cli import main
from labeldp.cli.options import flags_in_errors, progress

EXAMPLES = """\b
Examples:
  python -m papers multistage --dataset mnist --data DIR --epsilon 0.1,1 --method linear --seeds 3 --out runs
  python -m papers multistage --dataset mnist --data DIR --epsilon 1,2 --method lp-1st,lp-2st --seeds 3 --out runs
  python -m papers multistage --dataset mnist --data DIR --epsilon 1 --figure mixup --seeds 3 --out runs
"""

RATES_EXAMPLES = """\b
Examples:
  python -m papers rates --out rates
  python -m papers rates --out rates --rows classification-local,classes --epsilon 0.5,2 --seeds 3
"""

AGGREGATION_EXAMPLES = """\b
Examples:
  python -m papers aggregation --out bags
  python -m papers aggregation --data FOLDER --tables lba --bag-size 32,64 --bags 256,512 --out bags
  python -m papers aggregation --data criteo.tsv --seeds 10 --out bags
"""

ONLINE_EXAMPLES = """\b
Examples:
  python -m papers online --out online
  python -m papers online --tables exponents,table1,excess --out online
  python -m papers online --tables stocks,elec2 --data FOLDER --seeds 20 --out online
"""

PEERS_EXAMPLES = """\b
Examples:
  python -m papers peers --dataset fashion_mnist --data DIR --epsilon 0.5,1,2 --seeds 3 --out peers
  python -m papers peers --dataset mnist --data DIR --method rr,alibi,vlp,local --out peers
  python -m papers peers --dataset protein_structure --data FOLDER --out peers
"""


OUT = click.option(
    "--out", required=True, type=click.Path(path_type=str), help="A folder; it may collect several commands."
)


def _list_commands(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Print every table and figure with its command, and end."""
    if wanted:
        from papers.index import listed_commands

        for line in listed_commands():
            click.echo(line)
        context.exit()


@click.group()
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_commands,
    help="Print every table and figure of the four papers with the command that makes it.",
)
def papers() -> None:
    """Run published comparisons again, on your own copies of the data, and published rates on made-up ones."""
    if find_spec("matplotlib") is None:
        raise click.ClickException("figures need matplotlib, which is not installed: pip install -e '.[papers]'")


@papers.command("multistage", epilog=EXAMPLES)
@click.option(
    "--dataset",
    required=True,
    metavar="NAME",
    help="mnist, fashion_mnist, kmnist, cifar10, cifar100, movielens, or npz for images of your own.",
)
@click.option("--data", required=True, type=click.Path(path_type=str), help="Your files; nothing is downloaded.")
@click.option("--classes", metavar="A,B,…|K", help="With --dataset npz: the class names, or K for codes 0 … K-1.")
@click.option("--epsilon", required=True, metavar="NUMBERS", help="One or more, separated by commas.")
@click.option("--delta", default="1e-6", show_default=True, metavar="NUMBER", help="Used by linear and best only.")
@click.option(
    "--method",
    default="lp-1st,lp-2st,linear,best",
    show_default=True,
    metavar="NAMES",
    help="Some of lp-1st, lp-2st, lp-3st, linear, best, best-local, separated by commas; all but linear need torch.",
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
@click.option(
    "--seeds", default=3, show_default=True, type=int, help="How often everything is repeated, with fresh noise."
)
@click.option(
    "--figure",
    metavar="NAME",
    help="Runs a sweep instead of --method: split-temperature, mixup (of LP-2ST), clusters or ssl-clusters.",
)
@OUT
@flags_in_errors()
def multistage(data: str, out: str, **options: Any) -> None:
    """Multi-stage training and linear models on images or ratings, measured on the test part.

    Every run is a simulation, with noise from public seeds, and leaves a JSON file in OUT/runs. The same command again
    resumes what was interrupted; a second one at the same time shares the work. A table (Markdown) and figures (SVG) of
    all runs in OUT are written anew after each.
    """
    from papers.multistage.grid import Grid
    from papers.multistage.report import write_reproduced
    from papers.multistage.run import reproduce_multistage

    _reproduced(partial(reproduce_multistage, data=data), Grid.parse(**options), write_reproduced, out, "reading")


@papers.command("rates", epilog=RATES_EXAMPLES)
@click.option(
    "--rows",
    metavar="NAMES",
    help="Names of rows, or their beginnings, such as regression-central or classes; by default all.",
)
@click.option("--epsilon", metavar="NUMBERS", help="For all rows; by default what each row needs to show its slope.")
@click.option("--records", metavar="NUMBERS", help="Two or more, rising; by default seven from 1e6 to 1e9.")
@click.option(
    "--seeds", default=20, show_default=True, type=int, help="How often everything is repeated, data and noise afresh."
)
@click.option(
    "--family",
    default="smooth",
    show_default=True,
    metavar="NAMES",
    help="Of distributions: smooth (β = 1, γ = 0.5, p = 3), rough (β = 0.5, γ = 1, p = 2), or both.",
)
@OUT
@flags_in_errors()
def rates(out: str, **options: Any) -> None:
    """Exponents of Table I of Zhao et al., measured on hard instances, beside the predicted ones.

    Every run is a simulation on made-up labels, and leaves a JSON file in OUT/runs. The same command again resumes what
    was interrupted; a second one at the same time shares the work. Tables (Markdown) and figures (SVG) are made of all
    runs in OUT.
    """
    from papers.rates.report import write_rates
    from papers.rates.run import RateGrid, reproduce_rates

    _reproduced(reproduce_rates, RateGrid.parse(**options), write_rates, out, "rates")


@papers.command("aggregation", epilog=AGGREGATION_EXAMPLES)
@click.option(
    "--data",
    envvar="LABELDP_DATA",
    type=click.Path(path_type=str),
    help="Your file of Criteo Sponsored Search or the 1940 census, or a folder with stand-ins; default LABELDP_DATA.",
)
@click.option(
    "--tables",
    default="lba,llp",
    show_default=True,
    metavar="NAMES",
    help="Some of lba, llp and adam (learning curves of lba); llp needs torch, and is left out without it.",
)
@click.option("--bag-size", metavar="NUMBERS", help="Records in a bag, k; by default what suits each table.")
@click.option("--bags", metavar="NUMBERS", help="How many bags, m; by default what suits each table.")
@click.option("--noisy-fraction", metavar="NUMBERS", help="Of labels in llp, ρ; by default 0,0.01,0.1,0.5,1.")
@click.option(
    "--seeds", default=2, show_default=True, type=int, help="How often everything is repeated; the paper has 10."
)
@OUT
@flags_in_errors()
def aggregation(data: str | None, out: str, **options: Any) -> None:
    """Tables 1 to 6 of Brahmbhatt et al. on learning from bags, each row with what it really promises.

    Without a file of the paper's they are run on made-up records, and on stand-ins where --data is a folder that holds
    NAME/NAME.csv.gz for hillstrom, census_income_kdd or protein_structure. Every run is a simulation and leaves a JSON
    file in OUT/runs. The same command again resumes what was interrupted; a second one at the same time shares the
    work. A table (Markdown) and figures (SVG) are made of all runs in OUT.
    """
    from papers.aggregation.report import write_aggregation
    from papers.aggregation.run import AggregationGrid, reproduce_aggregation

    _reproduced(
        partial(reproduce_aggregation, data=data), AggregationGrid.parse(**options), write_aggregation, out, "bags"
    )


@papers.command("online", epilog=ONLINE_EXAMPLES)
@click.option(
    "--tables",
    metavar="NAMES",
    help="Some of exponents, table1, excess, regret, hard, adversary, stocks, elec2; by default all.",
)
@click.option(
    "--losses",
    metavar="NAMES",
    help="In regret: some of iid-0.1, iid-0.02, ep10, ep100, shift, trap, alt100; by default all.",
)
@click.option("--rounds", default="1e5", show_default=True, metavar="NUMBER", help="Of made-up losses, T.")
@click.option("--experts", default="100,1000", show_default=True, metavar="NUMBERS", help="Of made-up losses, d.")
@click.option("--epsilon", metavar="NUMBERS", help="For all tables; by default what suits each.")
@click.option(
    "--data",
    envvar="LABELDP_DATA",
    type=click.Path(path_type=str),
    help="A folder with stock_experts/NAME.csv.gz and elec2/elec2.csv.gz for stocks and elec2; default LABELDP_DATA.",
)
@click.option("--seeds", default=5, show_default=True, type=int, help="How often everything random is repeated.")
@OUT
@flags_in_errors()
def online(data: str | None, out: str, **options: Any) -> None:
    """Figure 1 and Table 1 of Asi et al., printed and corrected, and the regret of every learner with experts.

    Losses are made up, or public: stocks, and forecasts of electricity prices. Every run is a simulation, coins come
    from public seeds, and leaves a JSON file in OUT/runs. The same command again resumes what was interrupted; a
    second one beside it shares the work. Tables (Markdown) and figures (SVG) are made of all runs in OUT.
    """
    from papers.online.report import write_online
    from papers.online.run import OnlineGrid, reproduce_online

    _reproduced(partial(reproduce_online, data=data), OnlineGrid.parse(**options), write_online, out, "online")


@papers.command("peers", epilog=PEERS_EXAMPLES)
@click.option(
    "--dataset",
    required=True,
    metavar="NAME",
    help="mnist, fashion_mnist, kmnist, cifar10 or cifar100; of numbers generated, hillstrom, census_income_kdd, "
    "protein_structure, criteo or census.",
)
@click.option(
    "--data",
    envvar="LABELDP_DATA",
    type=click.Path(path_type=str),
    help="Your files, or a folder that holds a folder with the name of the data set; default LABELDP_DATA.",
)
@click.option(
    "--method", metavar="NAMES", help="One or more, separated by commas; by default all that fit the data set."
)
@click.option("--epsilon", default="0.5,1,2", show_default=True, metavar="NUMBERS", help="One or more.")
@click.option("--delta", default="1e-6", show_default=True, metavar="NUMBER", help="Spent by methods that need one.")
@click.option("--records", default=12_000, show_default=True, type=int, help="Training records, at most.")
@click.option(
    "--seeds", default=3, show_default=True, type=int, help="How often everything is repeated, with fresh noise."
)
@OUT
def peers(data: str | None, out: str, **options: Any) -> None:
    """Methods of other papers and ours on one footing, each beside its published figure.

    All see the same public features and learn one linear layer where they leave the learner open. Every run is a
    simulation, noise comes from public seeds, and leaves a JSON file in OUT/runs. The same command again resumes what
    was interrupted; a second one at the same time shares the work. A table (Markdown) is made of all runs in OUT.
    """
    from papers.peers.report import write_peers
    from papers.peers.run import PeerGrid, reproduce_peers

    _reproduced(partial(reproduce_peers, data=data), PeerGrid.parse(**options), write_peers, out, "peers")


def _reproduced(run: Any, grid: Any, write: Any, out: str, word: str) -> None:
    """Run a grid, write the tables and figures of all runs in the folder, and print their paths."""
    publish = partial(write, folder=out)
    with progress(word) as show:
        results = run(grid, out=out, callback=partial(click.echo, err=True), publish=publish, progress=show)
    for path in publish(results):
        click.echo(path)


if __name__ == "__main__":
    main(papers)
