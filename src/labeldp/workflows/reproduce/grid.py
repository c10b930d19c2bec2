"""What is to be run: one `Run` for each method, epsilon, noise and setting."""

import hashlib
from dataclasses import dataclass
from itertools import product

import numpy as np

from labeldp.privacy import Budget, InputError, all_digits, decimal, shortest_float
from labeldp.workflows.reproduce.tasks import DATASETS
from labeldp.workflows.settings import epsilon_of

Setting = tuple[str, float | str]


@dataclass(frozen=True)
class Method:
    """What a method needs.

    Args:
        delta: spends one.
        network: trains one, with torch.
        preset: takes its recipe from a preset.
    """

    delta: bool = False
    network: bool = True
    preset: bool = True


METHODS = {
    "lp-1st": Method(),
    "lp-2st": Method(),
    "linear": Method(delta=True, network=False, preset=False),
    "best": Method(delta=True, preset=False),
}
"""Randomized response in one stage and in two, the linear model of noisy sums, and all of it put together."""

CLUSTERS = Method(network=False, preset=False)
"""Noisy majorities of clusters, behind their figure alone."""

FIGURES: dict[str, tuple[str, dict[str, tuple[float | str, ...]]]] = {
    "split-temperature": ("lp-2st", {"split": (0.4, 0.55, 0.7), "temperature": (0.5, 1.0, 2.0, "calibrated")}),
    "mixup": ("lp-2st", {"mixup1": (0.0, 2.0, 8.0), "mixup2": (0.0, 2.0, 8.0)}),
    "clusters": ("clusters", {"clusters": (10.0, 30.0, 100.0, 300.0, 1000.0)}),
}
"""Sweeps behind a figure of their own: the method, and the values of two settings, or of one beside epsilon."""

QUICK = ("cnn", "mlp")
"""Networks that are trained by the preset "quick" unless another is named."""


@dataclass(frozen=True)
class Run:
    """One training with one noise; all of it is public.

    Args:
        dataset: a key of `DATASETS`.
        method: a key of `METHODS`, or "clusters".
        epsilon: of every label.
        delta: 0 for methods that spend none.
        seed: of noise, split and training.
        network: a key of `labeldp.networks.NETWORKS`, where there is one.
        preset: a key of `labeldp.networks.PRESETS`, where there is one.
        settings: what a sweep changed.
    """

    dataset: str
    method: str
    epsilon: float
    delta: float
    seed: int
    network: str | None = None
    preset: str | None = None
    settings: tuple[Setting, ...] = ()

    @property
    def name(self) -> str:
        """Of its file; different runs have different names."""
        words = [self.dataset, self.method, *(each for each in (self.network, self.preset) if each)]
        words += [f"epsilon{all_digits(self.epsilon)}"]
        words += [f"delta{all_digits(self.delta)}"] if self.delta else []
        words += [f"{name}={value}" for name, value in self.settings]
        return "-".join([*words, f"seed{self.seed}"])

    @property
    def title(self) -> str:
        """For people."""
        changed = [
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in self.settings
        ]
        return ", ".join([f"{self.dataset}, {self.method}, ε = {self.epsilon:g}", *changed, f"noise {self.seed + 1}"])

    def rng(self) -> np.random.Generator:
        """The noise of this run alone: reproducible, and so a simulation."""
        return np.random.default_rng(list(hashlib.sha256(self.name.encode()).digest()))

    def setting(self, name: str) -> float | str | None:
        """What a sweep set, or None."""
        return dict(self.settings).get(name)


@dataclass(frozen=True)
class Grid:
    """All runs of one command.

    Args:
        dataset: a key of `DATASETS`.
        classes: of "npz", as written.
        runs: in the order in which they are made: the first noise of everything, then the second.
    """

    dataset: str
    classes: str | None
    runs: tuple[Run, ...]

    @classmethod
    def parse(
        cls,
        *,
        dataset: str,
        classes: str | None,
        epsilon: str,
        delta: str,
        method: str,
        network: str | None,
        preset: str | None,
        seeds: int,
        figure: str | None,
    ) -> "Grid":
        """A grid as it is written on a command line.

        Raises:
            InputError: the first that is wrong.
        """
        if dataset not in DATASETS:
            raise InputError(f"--dataset must be one of {', '.join(DATASETS)}, not {dataset!r}")
        if (DATASETS[dataset].classes is None) != (classes is not None):
            raise InputError("--classes must be given with --dataset npz, such as 10 or cat,dog, and only there")
        if seeds < 1:
            raise InputError("--seeds must be at least 1")
        if figure is not None and figure not in FIGURES:
            raise InputError(f"--figure must be one of {', '.join(FIGURES)}, not {figure!r}")
        epsilons = [epsilon_of(each) for each in _listed(epsilon, "epsilon")]
        spent = Budget(1, shortest_float(decimal(delta, "delta"))).delta
        ways = _ways(figure, _listed(method, "method"))
        runs = [
            _run(dataset, name, each, spent, seed, network, preset, settings)
            for seed, each, (name, settings) in product(range(seeds), epsilons, ways)
        ]
        if (network and not any(run.network for run in runs)) or (preset and not any(run.preset for run in runs)):
            raise InputError("--network and --preset need a method that takes them: --preset is for lp-1st and lp-2st")
        return cls(dataset, classes, tuple(runs))


def _listed(text: str, option: str) -> list[str]:
    """The parts of a text with commas, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts) or len(set(parts)) < len(parts):
        raise InputError(f"--{option} must hold distinct values, separated by commas")
    return parts


def _ways(figure: str | None, methods: list[str]) -> list[tuple[str, tuple[Setting, ...]]]:
    """Methods with their settings: as asked for, or the sweep of a figure."""
    if figure is not None:
        method, axes = FIGURES[figure]
        return [(method, tuple(zip(axes, values, strict=True))) for values in product(*axes.values())]
    for method in methods:
        if method not in METHODS:
            raise InputError(f"--method must be one or more of {', '.join(METHODS)}, not {method!r}")
    return [(method, ()) for method in methods]


def _run(
    dataset: str,
    method: str,
    epsilon: float,
    delta: float,
    seed: int,
    network: str | None,
    preset: str | None,
    settings: tuple[Setting, ...],
) -> Run:
    """A run with what its method takes, and nothing else; defaults go with data set and network."""
    facts, source = METHODS.get(method, CLUSTERS), DATASETS[dataset]
    if source.ratings and not facts.preset:
        raise InputError(f"--method {method} needs images: --dataset {dataset} takes lp-1st and lp-2st")
    if facts.delta and not delta:
        raise InputError("--delta must be positive for linear and best, such as 1e-6")
    chosen = (network or source.network) if facts.network else None
    recipe = (preset or ("quick" if chosen in QUICK else source.preset)) if facts.preset else None
    return Run(dataset, method, epsilon, delta if facts.delta else 0.0, seed, chosen, recipe, settings)
