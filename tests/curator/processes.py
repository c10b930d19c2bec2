"""Processes that release from one ledger, to be run as a script: they are killed, or they compete.

The script forks its workers itself, so that nothing but it and them is ever killed.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

import labeldp as ldp
from labeldp.curator import Curator, LedgerFile, ledger_store

ROUNDS = 20

EPSILON = 0.01


def curator(path: Path, run: str, records: int = 500) -> Curator:
    """The same labels in every process."""
    ledger = LedgerFile(path).dataset("people", budget=ldp.Budget(epsilon=100))
    return Curator(np.arange(records) % 3, domain=ldp.Classes(3), ledger=ledger, run=run)


def stage_mechanism(domain: ldp.Classes, epsilon: float) -> ldp.mechanisms.RandomizedResponseWithPrior:
    """A mechanism with a candidate set for each record: its steps are releases of their own."""
    uniform = ldp.Public(np.full((500, 3), 1 / 3), why="uniform")
    return ldp.mechanisms.RandomizedResponseWithPrior(domain=domain, epsilon=epsilon, prior=uniform)


def digest(release: ldp.Release) -> str:
    """Tells two outputs apart."""
    return hashlib.sha256(release.value.tobytes()).hexdigest()[:16]


def release_on(path: Path, first: int, pipe: int) -> None:
    """Release stage after stage, and tell each one only when it was returned."""
    people = curator(path, "loop")
    mechanism = stage_mechanism(people.domain, EPSILON)
    for stage in range(first, 10_000):
        release = people.release(mechanism, rng=ldp.SystemRandomness(), step=str(stage))
        [charge] = release.certificate.entries
        os.write(pipe, f"{stage} {charge.id} {digest(release)}\n".encode())


def killed_worker(path: Path, first: int, lines: int, seconds: float) -> list[list[str]]:
    """What a worker told before it was killed, some time after it told so many lines."""
    reading, writing = os.pipe()
    worker = os.fork()
    if worker == 0:
        release_on(path, first, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = [pipe.readline() for _ in range(lines)]
        time.sleep(seconds)
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
        told += pipe.read().splitlines()
    return [line.split() for line in told if line.count(" ") == 2]


def kill(path: Path) -> None:
    """Rounds of releases, each killed at a random point; what was told and what was charged after each.

    A round begins with the last stage that was charged; three rounds in four get to another one, however slow the disk.
    """
    clock, first = random.Random(1), 0
    for number in range(ROUNDS):
        told = killed_worker(path, first, 2 if number % 4 else 0, clock.uniform(0, 0.06))
        entries = LedgerFile(path).dataset("people", budget=ldp.Budget(epsilon=100)).read().entries
        charged = [[entry.step, entry.certificate.entries[0].id] for entry in entries]
        print(json.dumps({"told": told, "charged": charged}))
        first = max(0, len(entries) - 1)


def spend(path: Path) -> None:
    """Three workers that each try to spend the whole budget of 0.05, in shares of 0.01."""
    LedgerFile(path).add("people", ldp.Budget(epsilon=0.05))
    ready, go = os.pipe()
    workers = []
    for number in range(3):
        worker = os.fork()
        if worker == 0:
            os.close(go)
            os.read(ready, 1)  # until the parent closes its end
            os._exit(spend_on(path, f"worker {number}"))
        workers.append(worker)
    os.close(ready)
    os.close(go)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]))


def spend_on(path: Path, run: str) -> int:
    """How many of five different releases the budget admitted."""
    people, admitted = curator(path, run), 0
    mechanism = stage_mechanism(people.domain, EPSILON)
    for stage in range(5):
        try:
            people.release(mechanism, rng=ldp.SystemRandomness(), step=str(stage))
            admitted += 1
        except ldp.BudgetExceeded:
            pass
    return admitted


def extend(path: Path) -> None:
    """Rounds of workers that add cohort after cohort, each killed at a random point; the cohorts after each round."""
    clock = random.Random(2)
    for _ in range(8):
        first = len(LedgerFile(path).dataset("bought").read().cohorts)
        worker = os.fork()
        if worker == 0:
            for number in range(first, first + 1000):
                LedgerFile(path).add_cohort("bought", f"cohort {number}", np.arange(20_000) + 20_000 * number)
        time.sleep(clock.uniform(0.05, 0.6))
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
        found = LedgerFile(path).dataset("bought").read().cohorts
        print(json.dumps({"cohorts": [[each.name, each.records] for each in found]}))


def intrude(path: Path) -> None:
    """One release, of a process that does not wait long for others."""
    ledger_store.PATIENCE = 0.2
    try:
        people = curator(path, "intruder", records=300)
        people.release(ldp.RandomizedResponse(domain=people.domain, epsilon=EPSILON), rng=ldp.SystemRandomness())
        print(json.dumps("released"))
    except ldp.privacy.LedgerError as error:
        print(json.dumps(str(error)))


if __name__ == "__main__":
    {"kill": kill, "spend": spend, "extend": extend, "intrude": intrude}[sys.argv[1]](Path(sys.argv[2]))
