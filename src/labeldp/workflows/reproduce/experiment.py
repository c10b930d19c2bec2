"""Run a grid, leave a file for each run, and go on where an earlier command stopped."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from labeldp.privacy import Budget, InputError
from labeldp.tables import whole_or_nothing
from labeldp.workflows.curator import Curator
from labeldp.workflows.reproduce.folder import results_folder
from labeldp.workflows.reproduce.grid import Grid, Run
from labeldp.workflows.reproduce.methods import constants, perform, recipes, refuse_small, refuse_unknown
from labeldp.workflows.reproduce.observed import ObservedCurator, Seen
from labeldp.workflows.reproduce.results import Result, hardware, now, versions
from labeldp.workflows.reproduce.stored import make, path_of
from labeldp.workflows.reproduce.tasks import Task, load_task

Progress = Callable[[str, float], None]
Told = Callable[[str], None]

CURVE = "curve.jsonl"


def reproduce_multistage(
    grid: Grid,
    *,
    data: str,
    out: str,
    told: Told | None = None,
    publish: Callable[[list[Result]], object] | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Make every run of a grid that has no file yet; a folder may collect several grids.

    Labels play the private part: noise is drawn from public seeds, so every certificate says that this is a
    simulation. Test records are measured on, and nothing else. Commands that run at the same time on one folder share
    the work.

    Args:
        grid: what to run.
        data: path of the user's files.
        out: a folder, made if need be: `runs` holds a JSON file for each run, `unfinished` the checkpoints.
        told: called with a sentence after each run.
        publish: called with all results in the folder after each run that was made.
        progress: called with what is being done and the share of the work that is done.

    Returns:
        All results in the folder, of other grids too.

    Raises:
        InputError: wrong data, network or preset; or the folder holds something else. No run was started.
    """
    say, show = told or (lambda sentence: None), progress or (lambda text, share: None)
    folder = results_folder(out)
    known = Result.all_in(folder)
    for run in grid.runs:
        refuse_unknown(run)
    show("reading", 0.0)
    task = load_task(grid.dataset, data, grid.classes)
    if any(each.run.dataset == grid.dataset and each.data != task.digest for each in known):
        raise InputError(f"--out {out} holds runs on other files of {grid.dataset}: name another folder")
    for run in grid.runs:
        refuse_small(run, task)
        _standing(folder, run)
    for place, run in enumerate(grid.runs):
        if _make(folder, task, run, say, partial(_shown, show, place, len(grid.runs))) and publish is not None:
            publish(Result.all_in(folder))
    return Result.all_in(folder)


def _shown(show: Progress, done: int, count: int, text: str, share: float) -> None:
    """The progress of one run as a share of all."""
    show(text, (done + share) / count)


def _standing(folder: Path, run: Run) -> Result | None:
    """The result of a run that was made before.

    Raises:
        InputError: it was made by another recipe of the same name, or by a method whose constants were others.
    """
    path = path_of(folder, run)
    if not path.exists():
        return None
    result = Result.read(path)
    wanted = json.loads(json.dumps([asdict(recipe) for recipe in recipes(run)]))
    if list(result.recipe) != wanted:
        raise InputError(f"{path} was trained by another recipe: name another folder, or remove it")
    if result.constants not in (None, constants(run)):
        raise InputError(f"{path} was made by {run.method} as it was before: name another folder, or remove it")
    return result


def _make(folder: Path, task: Task, run: Run, say: Told, show: Progress) -> bool:
    """One run, unless it stands or somebody else is at it; whether it was made."""
    if (result := _standing(folder, run)) is not None:
        say(f"{run.title}: {_said(result)}, from before")
        return False

    def measured(place: Path) -> Result:
        result = _performed(place, task, run, show)
        say(f"{run.title}: {_said(result)} in {result.seconds:.0f} s")
        return result

    return make(folder, run, lambda: _standing(folder, run) is not None, measured, say)


def _said(result: Result) -> str:
    """The number as a sentence has it."""
    return f"RMSE {result.value:.4f}" if result.metric == "RMSE" else f"{100 * result.value:.2f} %"


def _performed(place: Path, task: Task, run: Run, show: Progress) -> Result:
    """Learn, measure, and say where and when."""
    clock, seen = _Clock(place / CURVE, run, show), list[Seen]()
    show(f"{run.title}: features", 0.0)
    clock.start(task.patches.seconds if run.method == "linear" else (0.0, 0.0))
    show(run.title, 0.0)
    holder = Curator(task.train.labels, domain=task.domain, budget=Budget(run.epsilon, run.delta))
    curator = ObservedCurator(holder, task.domain.encode(task.train.labels), seen)
    outcome = perform(run, task, curator, place, clock.watch)
    return Result(
        run=run,
        metric=outcome.metric,
        value=outcome.value,
        steps=outcome.steps,
        trust=outcome.certificate.trust.name.lower(),
        recipe=tuple(asdict(recipe) for recipe in recipes(run)),
        constants=constants(run),
        releases=tuple(asdict(each) for each in seen),
        curve=tuple(clock.curve),
        seconds=clock.seconds[0],
        processor_seconds=clock.seconds[1],
        records=(len(task.train.labels), len(task.test.labels)),
        data=task.digest,
        certificate=outcome.certificate.at(run.delta),
        hardware=hardware(),
        versions=versions(run.network is not None),
        date=now(),
    )


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
        self.curve: list[dict[str, Any]] = list({(each["step"], each["epoch"]): each for each in found}.values())

    def start(self, before: tuple[float, float]) -> None:
        """From here on time counts, and what was spent before."""
        names = ("seconds", "processor_seconds")
        spent = [self.curve[-1][name] for name in names] if self.curve else before
        self._start = time.perf_counter() - spent[0], time.process_time() - spent[1]

    @property
    def seconds(self) -> tuple[float, float]:
        """Spent on the run so far, by earlier commands too: on the clock, and of processors."""
        return round(time.perf_counter() - self._start[0], 1), round(time.process_time() - self._start[1], 1)

    def watch(self, step: str, record: Any, epochs: int) -> None:
        """Note an epoch."""
        clock, processor = self.seconds
        entry = {"step": step, **asdict(record), "seconds": clock, "processor_seconds": processor}
        self.curve.append(entry)
        text = "".join(json.dumps(each) + "\n" for each in self.curve)
        with whole_or_nothing(self._path, overwrite=True) as hidden:
            hidden.write_text(text, encoding="utf-8")
        self._show(f"{self._run.title}: {step}, epoch {record.epoch} of {epochs}", record.epoch / epochs)
