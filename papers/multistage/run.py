"""Ghazi et al.: what each method does with a data set, and what came out."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from labeldp.curator import Curator, Recorded
from labeldp.features import CHOSEN
from labeldp.learners import fit_linear, fit_multistage, imported
from labeldp.mechanisms import LaplaceHistogram
from labeldp.privacy import Budget, Certificate, InputError, Public, Release
from labeldp.tables import atomic_write
from papers import harness
from papers.harness import Experiment, Hooks, Json, Progress, Stored
from papers.multistage.grid import CLUSTERED, Grid, Run, Task, load_task

CURVE = "curve.jsonl"
STAGES = {"lp-1st": 1, "lp-2st": 2, "lp-3st": 3}
CLUSTERINGS: dict[str, Callable[[Task], Any]] = {
    "clusters": lambda task: task.principal,
    "ssl-clusters": lambda task: task.self_supervised,
}
"""What is clustered, by method."""

BEST: dict[str, Literal["central", "local"]] = {"best": "central", "best-local": "local"}
"""The methods that are `fit_best`, and whom they trust."""
Watch = Callable[[str, Any, int], None]
"""Called after each epoch: step, what was recorded, epochs of the step."""


@dataclass(frozen=True)
class Seen:
    """What a simulation saw of one release.

    Args:
        step: name of the step.
        records: number of labels.
        mechanism: the mechanism in words.
        candidates: mean size of the candidate sets, None without them.
        covered: share of the records whose true class is among their candidates.
    """

    step: str
    records: int
    mechanism: str
    candidates: float | None = None
    covered: float | None = None

    @classmethod
    def of(cls, event: Recorded, codes: NDArray[Any]) -> "Seen":
        """Return what a release shows to who knows the labels, codes of shape (n,)."""
        mechanism, rows = event.release.mechanism, event.rows
        sets = getattr(mechanism, "candidates", None)
        if sets is None:
            return cls(event.step, len(rows), str(mechanism))
        inside = sets.membership()[np.arange(len(sets)), codes[rows]]
        return cls(event.step, len(rows), str(mechanism), float(sets.sizes.mean()), float(inside.mean()))


@dataclass(frozen=True)
class Result(Stored):
    """One number and everything that it came from; no field holds a label.

    Args:
        run: what was asked for.
        metric: what was measured.
        value: it, on the test records.
        steps: the same of the models on the way, where a method has several.
        trust: who sees the labels before the noise: "local" or "central".
        recipe: how the network was trained, stage by stage.
        releases: every release, with mean size of candidate sets and how many true labels they held.
        curve: loss by step and epoch, on released labels.
        seconds: of wall-clock time, features that are computed once for all noises included, interruptions not.
        processor_seconds: the same, of all cores together, without waiting for others on the machine.
        records: of training and test.
        data: digest of the features.
        certificate: the guarantee as a sentence, which says that this was a simulation.
        hardware: where it ran.
        versions: of Python and packages.
        date: when it ended.
        constants: what the code of the method fixed; None, unknown, in files of before this was noted.
    """

    COMMAND = "multistage"
    NOTE = "SIMULATION: noise comes from a public seed"

    run: Run
    metric: str
    value: float
    steps: tuple[Json, ...]
    trust: str
    recipe: tuple[Json, ...]
    releases: tuple[Json, ...]
    curve: tuple[Json, ...]
    seconds: float
    processor_seconds: float
    records: tuple[int, int]
    data: str
    certificate: str
    hardware: Json
    versions: dict[str, str]
    date: str
    constants: Json | None = None

    @property
    def candidates(self) -> float | None:
        """The mean size of the last candidate sets, k*; None where there were none."""
        return self._last("candidates")

    @property
    def covered(self) -> float | None:
        """The share of records whose true class was among those candidates: stage 1's top-k accuracy."""
        return self._last("covered")

    def _last(self, name: str) -> float | None:
        found = [each[name] for each in self.releases if each[name] is not None]
        return found[-1] if found else None

    def content(self) -> Json:
        """Return the result as plain JSON values, and what is often asked of them."""
        found = {**super().content(), "mean candidates": self.candidates, "stage-1 top-k accuracy": self.covered}
        found["run"]["settings"] = dict(self.run.settings)
        return found

    @classmethod
    def parts(cls, content: Json) -> Json:
        """Return run, lists, and constants, which old files do not tell."""
        run = content["run"]
        lists = ("steps", "recipe", "releases", "curve", "records")
        given: Json = {name: tuple(content[name]) for name in lists}
        given["run"] = Run(**{**run, "settings": tuple(run["settings"].items())})
        return {**given, "constants": content.get("constants")}


@dataclass(frozen=True)
class MultistageExperiment(Experiment[Run, Result]):
    """Methods on one data set."""

    task: Task

    stored = Result

    def constants(self, run: Run) -> Json:
        """Return what the code of a method fixes."""
        return constants(run)

    def check(self, result: Result, path: Path) -> None:
        """Refuse a result of another recipe of the same name, or of a method whose constants were others."""
        run = result.run
        if list(result.recipe) != json.loads(json.dumps([asdict(recipe) for recipe in recipes(run)])):
            raise InputError(f"{path} was trained by another recipe: name another folder, or remove it")
        if result.constants not in (None, constants(run)):
            raise InputError(f"{path} was made by {run.method} as it was before: name another folder, or remove it")

    def batch(self, run: Run) -> object:
        """Publish after each run."""
        return run.name

    def sentence(self, result: Result) -> str:
        """Return the number."""
        return f"RMSE {result.value:.4f}" if result.metric == "RMSE" else f"{100 * result.value:.2f} %"

    def measure(self, run: Run, place: Path, show: Progress) -> Result:
        """Learn, measure, and say where and when."""
        task, seen = self.task, list[Seen]()
        clock = _Clock(place / CURVE, run, show)
        show(f"{run.title}: features", 0.0)
        clock.start(task.mapped.seconds if run.method == "linear" else (0.0, 0.0))
        show(run.title, 0.0)
        holder = Curator(task.train.labels, domain=task.domain, budget=Budget(run.epsilon, run.delta))
        codes = task.domain.encode(task.train.labels)
        with holder.subscribe(lambda event: seen.append(Seen.of(event, codes))):
            outcome = perform(run, task, holder, place, clock.watch)
        return Result(
            run=run,
            metric=outcome.metric,
            value=outcome.value,
            steps=outcome.steps,
            trust=outcome.certificate.trust.name.lower(),
            recipe=tuple(asdict(recipe) for recipe in recipes(run)),
            releases=tuple(asdict(each) for each in seen),
            curve=tuple(clock.curve),
            processor_seconds=clock.seconds[1],
            records=(len(task.train.labels), len(task.test.labels)),
            data=task.digest,
            certificate=outcome.certificate.at(run.delta),
            hardware=harness.hardware(),
            **self.origin(run, clock.seconds[0], network=run.network is not None),
        )


def reproduce_multistage(grid: Grid, *, data: str, out: str, **hooks: Unpack[Hooks]) -> list[Result]:
    """Make every run of a grid that has no file yet; a folder may collect several grids.

    Labels play the private part: noise is drawn from public seeds, so every certificate says that this is a
    simulation. Test records are measured on, and nothing else. Commands that run at the same time on one folder share
    the work.

    Args:
        grid: what to run.
        data: path of the user's files.
        out: a folder, made if need be: `runs` holds a JSON file for each run, `unfinished` the checkpoints.
        hooks: functions that are called meanwhile, as `Hooks` says.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: wrong data, network or preset; or the folder holds something else. No run was started.
    """
    folder = harness.results_folder(out)
    known = Result.all_in(folder)
    for run in grid.runs:
        if run.network is not None and run.network not in (there := imported("labeldp.networks").NETWORKS):
            raise InputError(f"--network must be one of {', '.join(there)}")
        if run.preset is not None and run.preset not in (there := imported("labeldp.networks").PRESETS):
            raise InputError(f"--preset must be one of {', '.join(there)}")
    if show := hooks.get("progress"):
        show("reading", 0.0)
    task = load_task(grid.dataset, data, grid.classes)
    if any(each.run.dataset == grid.dataset and each.data != task.digest for each in known):
        raise InputError(f"--out {out} holds runs on other files of {grid.dataset}: name another folder")
    for run in grid.runs:
        count = run.setting("clusters")
        if isinstance(count, float) and count > len(task.train.features):
            raise InputError(f"--figure clusters needs at least {count:g} training records")
    return MultistageExperiment(task).run_missing(grid.runs, folder, **hooks)


class _Clock:
    """The learning curve and the seconds of a run, in a file that outlives an interruption.

    Args:
        path: of the file.
        run: which.
        show: progress.
    """

    def __init__(self, path: Path, run: Run, show: Progress) -> None:
        self._path, self._run, self._show = path, run, show
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        self.curve: list[Json] = list({(each["step"], each["epoch"]): each for each in found}.values())

    def start(self, before: tuple[float, float]) -> None:
        """Count time from here on, and what was spent before."""
        names = ("seconds", "processor_seconds")
        spent = [self.curve[-1][name] for name in names] if self.curve else before
        self._start = time.perf_counter() - spent[0], time.process_time() - spent[1]

    @property
    def seconds(self) -> tuple[float, float]:
        """The seconds of the run so far, earlier commands included: on the clock, and of processors."""
        return round(time.perf_counter() - self._start[0], 1), round(time.process_time() - self._start[1], 1)

    def watch(self, step: str, record: Any, epochs: int) -> None:
        """Note an epoch."""
        clock, processor = self.seconds
        entry = {"step": step, **asdict(record), "seconds": clock, "processor_seconds": processor}
        self.curve.append(entry)
        text = "".join(json.dumps(each) + "\n" for each in self.curve)
        with atomic_write(self._path, overwrite=True) as hidden:
            hidden.write_text(text, encoding="utf-8")
        self._show(f"{self._run.title}: {step}, epoch {record.epoch} of {epochs}", record.epoch / epochs)


@dataclass(frozen=True)
class Outcome:
    """A measured model.

    Args:
        metric: what was measured.
        value: it.
        certificate: of the model.
        steps: the same of earlier models, by step, which nothing was chosen by.
    """

    metric: str
    value: float
    certificate: Certificate
    steps: tuple[Json, ...] = ()


def recipes(run: Run) -> tuple[Any, ...]:
    """Return how the network of a run is trained, a recipe for each stage; nothing where the method has its own."""
    if run.preset is None:
        return ()
    found = tuple(replace(recipe, seed=run.seed) for recipe in imported("labeldp.networks").PRESETS[run.preset])
    if run.setting("mixup1") is None:
        return found
    mixups = (run.setting("mixup1"), run.setting("mixup2"))
    return tuple(replace(recipe, mixup=mixup) for recipe, mixup in zip((found[0], found[-1]), mixups, strict=True))


def constants(run: Run) -> Json:
    """Return what the code of a method fixes, and no option says, as plain JSON values."""
    if run.method in CLUSTERINGS:
        return {"CLUSTERED": CLUSTERED, "measured on": "test images"}
    if run.method not in ("linear", *BEST):
        return {"FIRST_SMOOTHING": imported("labeldp.networks").losses.FIRST_SMOOTHING}
    found: Json = dict(CHOSEN)
    if run.method == "linear":
        found |= {"representation": "ImageMap", "link": "softmax"}
    if run.method in BEST:
        settings = imported("labeldp.networks").distillation.SETTINGS
        found |= {name.upper(): value for name, value in vars(settings).items()}
    return dict(json.loads(json.dumps(found, default=asdict)))


def perform(run: Run, task: Task, curator: Curator, checkpoints: Path, watch: Watch) -> Outcome:
    """Learn and measure.

    Args:
        run: what to do.
        task: data.
        curator: of the training labels.
        checkpoints: folder of this run.
        watch: called after each epoch.
    """
    if run.method in CLUSTERINGS:
        return _clusters(run, task, curator)
    from sklearn.preprocessing import FunctionTransformer

    steps: list[Json] = []
    if run.method == "linear":
        rows = task.mapped
        plain, rng = FunctionTransformer(), run.rng()
        release = fit_linear(rows.train, curator, epsilon=run.epsilon, delta=run.delta, rng=rng, representation=plain)
        return Outcome(task.metric, task.share_right(release.value.predict_proba(rows.test)), release.certificate)
    if run.method in BEST:
        release = imported("labeldp.networks").fit_best(
            task.train.features,
            curator,
            epsilon=run.epsilon,
            delta=run.delta,
            rng=run.rng(),
            trust=BEST[run.method],
            network=run.network,
            representation=FunctionTransformer(lambda images: task.map_images(images)),  # a method would be copied
            checkpoints=checkpoints,
            watch=watch,
            callback=lambda step, found: steps.append({"step": step, "value": task.measure(found.value)}),
            seed=run.seed,
        )
    else:
        release = _staged(run, task, curator, checkpoints, watch)
    return Outcome(task.metric, task.measure(release.value), release.certificate, tuple(steps))


def _staged(run: Run, task: Task, curator: Curator, checkpoints: Path, watch: Watch) -> Release[Any]:
    """Fit LP-1ST, LP-2ST or LP-3ST with the loss that knows the noise, temperature calibrated on released labels."""
    split, temperature = run.setting("split"), run.setting("temperature")
    counts = tuple((task.train.features.max(axis=0) + 1).tolist()) if task.ratings else None
    return fit_multistage(
        task.train.features,
        curator,
        classifier=imported("labeldp.networks").NetworkClassifier(
            run.network, recipe=recipes(run), counts=counts, checkpoints=checkpoints, watch=watch
        ),
        epsilon=run.epsilon,
        stages=STAGES[run.method],
        fractions=None if split is None else (float(split), 1 - float(split)),
        temperature=temperature if isinstance(temperature, float) else "calibrated",
        evaluation=0.0,
        response="randomized-response",
        partition_seed=run.seed,
        rng=run.rng(),
    )


def _clusters(run: Run, task: Task, curator: Curator) -> Outcome:
    """Measure noisy majorities of k-means clusters of all images, counted on training labels, on the test images.

    Source: Ghazi, appendix B, Figure 2.
    """
    from sklearn.cluster import MiniBatchKMeans

    count, table = int(run.setting("clusters") or 1), CLUSTERINGS[run.method](task)
    groups = MiniBatchKMeans(count, random_state=run.seed, n_init=3, batch_size=4096).fit_predict(table)
    own, other = np.split(groups, [len(task.train.labels)])
    occupied, places = np.unique(own, return_inverse=True)
    public = Public(places.astype(np.int64), why="k-means on the public features, with a public seed")
    mechanism = LaplaceHistogram(domain=task.domain, epsilon=run.epsilon, groups=public)
    release = curator.release(mechanism, rng=run.rng(), step="clusters")
    majority = np.zeros(count, dtype=np.int64)  # class 0 for test images in a cluster without a training image
    majority[occupied] = release.value.argmax(axis=1)
    right = majority[other] == task.domain.encode(task.test.labels)
    return Outcome(task.metric, float(right.mean()), release.certificate)
