"""Methods of other papers: which ones there are, how a run is made, and what came out."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Unpack

from labeldp.fit import epsilon_of
from labeldp.learners import imported
from labeldp.privacy import Budget, InputError, check_integer, decimal, decimal_text, float_above
from papers import harness
from papers.harness import Experiment, Hooks, Json, Progress, Stored, listed
from papers.peers import footing, methods
from papers.peers.footing import IMAGES, NUMBERS, Footing, load_footing
from papers.peers.methods import Learn


@dataclass(frozen=True)
class PeerMethod:
    """A method by its name on the command line.

    Args:
        title: of its row.
        learn: from a footing, epsilon, delta and randomness to a released prediction of test records.
        numbers: whether it is for numbers, and not for classes.
        delta: spends one.
        network: needs torch.
    """

    title: str
    learn: Learn
    numbers: bool = False
    delta: bool = False
    network: bool = False


PEER_METHODS = {
    "rr": PeerMethod("randomized response, cross-entropy", methods.response),
    "alibi": PeerMethod("ALIBI", methods.alibi),
    "vlp": PeerMethod("VLP", methods.vlp),
    "consensus": PeerMethod("consensus retraining", methods.consensus),
    "cluster-resampling": PeerMethod("cluster resampling", methods.resampling),
    "pate": PeerMethod("PATE, semi-supervised student", methods.pate, delta=True),
    "walr": PeerMethod("WALR", methods.walr, delta=True),
    "label-sgd": PeerMethod("label-only gradients", methods.label_sgd, delta=True, network=True),
    "labeldp-pro": PeerMethod("LabelDP-Pro", methods.projections, delta=True, network=True),
    "local": PeerMethod("ours, local", methods.own_local),
    "central": PeerMethod("ours, central", methods.own_central, delta=True),
    "laplace": PeerMethod("Laplace noise", methods.laplace, numbers=True),
    "rr-on-bins": PeerMethod("RR-on-bins", methods.bins, numbers=True),
    "weighted-llp": PeerMethod("weighted LLP", methods.weighted, numbers=True, delta=True),
    "local-numbers": PeerMethod("ours, local", methods.own_numbers, numbers=True),
    "central-numbers": PeerMethod("ours, central", methods.own_central, numbers=True, delta=True),
}
"""Methods by name; those of numbers need a data set of numbers, the others one of classes."""


@dataclass(frozen=True)
class PeerRun(harness.SeededRun):
    """One method with one noise; all of it is public.

    Args:
        dataset: one of `IMAGES` or `NUMBERS`.
        method: a key of `PEER_METHODS`, or "labels" for the labels themselves.
        epsilon: of every label; 0 for the labels themselves.
        delta: 0 for methods that spend none.
        records: training records, at most.
        seed: of the noise.
    """

    dataset: str
    method: str
    epsilon: float
    delta: float
    records: int
    seed: int

    @property
    def name(self) -> str:
        """The name of its file; different runs have different names."""
        words = [self.dataset, self.method]
        words += [f"epsilon{decimal_text(self.epsilon)}"] if self.epsilon else []
        words += [f"delta{decimal_text(self.delta)}"] if self.delta else []
        return "-".join([*words, f"n{self.records}", f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """Its name for people."""
        words = [f"ε = {self.epsilon:g}"] if self.epsilon else []
        return ", ".join([self.dataset, self.method, *words, f"noise {self.seed + 1}"])


@dataclass(frozen=True)
class PeerGrid:
    """All runs of one command.

    Args:
        dataset: one of `IMAGES` or `NUMBERS`.
        runs: the first noise of everything, then the second.
        named: whether methods were named, so that none may be left out.
    """

    dataset: str
    runs: tuple[PeerRun, ...]
    named: bool = True

    @classmethod
    def parse(
        cls, *, dataset: str, method: str | None, epsilon: str, delta: str, records: int, seeds: int
    ) -> "PeerGrid":
        """Return the grid of the options of a command line.

        Args:
            method: names, separated by commas; None for all that fit the data set.

        Raises:
            InputError: the first option that is wrong.
        """
        if dataset not in (*IMAGES, *NUMBERS):
            raise InputError(f"--dataset must be one of {', '.join((*IMAGES, *NUMBERS))}, not {dataset!r}")
        fitting = [name for name, each in PEER_METHODS.items() if each.numbers == (dataset in NUMBERS)]
        chosen = fitting if method is None else listed(method, "method")
        for name in chosen:
            if name not in fitting:
                raise InputError(f"--method must be one or more of {', '.join(fitting)} for {dataset}, not {name!r}")
        epsilons = listed(epsilon, "epsilon", epsilon_of)
        spent = Budget(1, float_above(decimal(delta, "delta"))).delta
        if not spent and any(PEER_METHODS[name].delta for name in chosen):
            raise InputError("--delta must be positive for methods that spend one, such as 1e-6")
        size = check_integer(records, "--records", 500)
        harness.check_seeds(seeds)
        runs = [PeerRun(dataset, "labels", 0.0, 0.0, size, 0)]
        for seed, each, name in product(range(seeds), epsilons, chosen):
            runs.append(PeerRun(dataset, name, each, spent if PEER_METHODS[name].delta else 0.0, size, seed))
        return cls(dataset, tuple(runs), named=method is not None)

    def possible(self, say: harness.Callback) -> "PeerGrid":
        """Return the grid, without networks where torch is missing and they were not named.

        Raises:
            InputError: torch is missing, and a method that needs it was named.
        """
        wanted = [run for run in self.runs if run.method in PEER_METHODS and PEER_METHODS[run.method].network]
        if not wanted:
            return self
        try:
            imported("labeldp.networks")
        except InputError as error:
            if self.named:
                raise
            say(f"{', '.join(dict.fromkeys(run.method for run in wanted))} are left out: {error}")
            return replace(self, runs=tuple(run for run in self.runs if run not in wanted))
        return self


@dataclass(frozen=True)
class PeerResult(Stored):
    """What one run found, and what it came from; no field holds a label.

    Args:
        run: what was asked for.
        metric: what was measured.
        value: it, on the test records.
        trust: who sees the labels before the noise: "local", "central", or "none" for the labels themselves.
        certificate: the guarantee as a sentence.
        records: of training and test.
        constants: what the code fixed, and a digest of the data.
        seconds: of wall-clock time.
        versions: of Python and packages.
        date: when it ended.
    """

    COMMAND = "peers"
    NOTE = "SIMULATION: noise comes from public seeds"

    run: PeerRun
    metric: str
    value: float
    trust: str
    certificate: str
    records: tuple[int, int]
    constants: Json
    seconds: float
    versions: dict[str, str]
    date: str

    @classmethod
    def parts(cls, content: Json) -> Json:
        """Return run and sizes."""
        return {"run": PeerRun(**content["run"]), "records": tuple(content["records"])}


@dataclass(frozen=True)
class PeerExperiment(Experiment[PeerRun, PeerResult]):
    """Methods on one footing."""

    side: Footing

    stored = PeerResult

    def constants(self, run: PeerRun) -> Json:
        """Return what the code fixes for a run, and what it runs on."""
        network = run.method in PEER_METHODS and PEER_METHODS[run.method].network
        own = imported("labeldp.networks").descent.CHOSEN if network else methods.constants()
        return {**footing.constants(), **own, "data": self.side.digest}

    def sentence(self, result: PeerResult) -> str:
        """Return the number."""
        return f"RMSE {result.value:.4f}" if result.metric == "RMSE" else f"{100 * result.value:.2f} %"

    def measure(self, run: PeerRun, place: Any, show: Progress) -> PeerResult:
        """Learn and measure."""
        (predicted, trust, sentence), seconds = harness.timed(lambda: self._perform(run))
        sizes = len(self.side.labels), len(self.side.truth)
        value = self.side.measure(predicted)
        origin = self.origin(run, seconds, network=run.method in PEER_METHODS and PEER_METHODS[run.method].network)
        return PeerResult(run, self.side.metric, value, trust, sentence, sizes, **origin)

    def _perform(self, run: PeerRun) -> tuple[Any, str, str]:
        if run.method == "labels":
            return methods.labels_themselves(self.side), "none", "none: learned from the labels themselves"
        release = PEER_METHODS[run.method].learn(self.side, run.epsilon, run.delta, run.rng())
        return release.value, release.certificate.trust.name.lower(), release.certificate.at(run.delta)


def reproduce_peers(grid: PeerGrid, *, data: str | None = None, out: str, **hooks: Unpack[Hooks]) -> list[PeerResult]:
    """Make every run of a grid that has no file yet; a folder may collect several data sets.

    Labels play the private part: noise comes from public seeds. Test records are measured on, and nothing else.

    Args:
        grid: what to run.
        data: path of the user's files, or of a folder that holds a folder with the data set's name.
        out: a folder, made if need be: `runs` holds a JSON file for each run.
        hooks: functions that are called meanwhile, as `Hooks` says.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: wrong data, torch is missing where it was asked for, or the folder holds something else. Nothing was
            run.
    """
    say: Callable[[str], None] = hooks.get("callback") or (lambda sentence: None)
    grid = grid.possible(say)
    folder = harness.results_folder(out)
    if show := hooks.get("progress"):
        show(f"reading {grid.dataset}", 0.0)
    side = load_footing(grid.dataset, data, grid.runs[0].records)
    return PeerExperiment(side).run_missing(grid.runs, folder, **hooks)
