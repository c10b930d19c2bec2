"""Many clients at once, and kills of front and vault at random moments: nothing may be charged or answered twice.

    PYTHONPATH=tests python tests/serve/storm.py [--clients 64] [--requests 5000] [--kills 200] [--page FILE]

Each client asks for releases that nobody else asks for, and for some of its own again. A supervisor starts the server
again whenever it ends. Afterwards ledger, log and answers are compared.
"""

import argparse
import hashlib
import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import labeldp as ldp
from labeldp.curator import Curator
from labeldp.serve import RemoteCurator, ServerConnection, read_log
from serve.server import CLASSES, TOKENS, Server, labels

DOMAIN = ldp.Classes(CLASSES)

AGAIN = 5
"""Every so many requests a client repeats an earlier one."""


def mechanism(client: int, number: int) -> ldp.RandomizedResponse:
    """The mechanism of a request: no other request has its epsilon."""
    return ldp.RandomizedResponse(domain=DOMAIN, epsilon=round(0.01 + client / 10**4 + number / 10**8, 9))


@dataclass
class Storm:
    """What was asked and what was answered.

    Args:
        server: what is asked.
        answers: for each analyst and epsilon the ids of charges, and digests of answers.
        times: seconds of each request.
    """

    server: Server
    answers: dict[tuple[str, float], set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    times: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    starts: int = 0
    doors: list[ServerConnection] = field(default_factory=list)

    def connect(self, clients: int) -> None:
        """Open a door for each client, while the server is there."""
        for number in range(clients):
            self.doors.append(ServerConnection(self.server.address, TOKENS[("ana", "ben")[number % 2]], tries=10**6))
            self.doors[-1].ask("datasets", {})

    def client(self, number: int, requests: int) -> None:
        """Ask for so many releases, one after the other."""
        who, rng = ("ana", "ben")[number % 2], random.Random(number)
        curator = RemoteCurator(self.doors[number], "people", DOMAIN, 300)
        for place in range(requests):
            asked = mechanism(number, rng.randrange(place) if place % AGAIN == AGAIN - 1 else place)
            began = time.monotonic()
            try:
                release = curator.release(asked, rng=ldp.SystemRandomness())
            except ldp.LabelDPError as error:
                self.failures.append(str(error))
                return
            self.times.append(time.monotonic() - began)
            text = json.dumps(release.certificate.to_json(), sort_keys=True).encode() + release.value.tobytes()
            found = release.certificate.entries[0].id, hashlib.sha256(text).hexdigest()
            self.answers[who, asked.epsilon].add(found)

    def check(self) -> dict[str, int]:
        """Compare answers, ledger and log; return what was counted."""
        entries = self.server.ledger().read().entries
        charged: dict[tuple[str, str], list[str]] = defaultdict(list)
        for entry in entries:
            charge = entry.certificate.entries[0]
            charged[entry.analyst, str(charge.mechanism["epsilon"])].append(charge.id)
        ids = {one for each in charged.values() for one in each}
        answered = [found for each in self.answers.values() for found in each]
        lines = read_log(self.server.folder / "state")
        logged = [line["charge"] for line in lines if "charge" in line]
        digests = {(line["charge"], line["answer"]) for line in lines if "answer" in line}
        return {
            "asked": len(self.times),
            "charges": len(entries),
            "charged twice": sum(len(each) - 1 for each in charged.values()),
            "answered and not charged": len({charge for charge, _ in answered} - ids),
            "two answers for one charge": len(answered) - len({charge for charge, _ in answered}),
            "two answers for one request": sum(len(each) - 1 for each in self.answers.values()),
            "two answers for one charge in the log": len(digests) - len({charge for charge, _ in digests}),
            "charges that the log lacks": len(ids - set(logged)),
            "clients without an answer": len(self.failures),
        }


def storm(folder: Path, clients: int, requests: int, kills: int, seed: int = 0) -> tuple[Storm, dict[str, int]]:
    """Ask, kill, and compare."""
    limits = "quantum = 0.002\nrate = 1000000000\nwaiting = 256"
    server = Server(folder, labels(), limits=limits, budget="epsilon = 1000")
    found, rng = Storm(server), random.Random(seed)
    each = -(-requests // clients)
    threads = [threading.Thread(target=found.client, args=(number, each)) for number in range(clients)]
    server.start().wait()
    found.connect(clients)
    for thread in threads:
        thread.start()
    killed, next_kill = 0, requests / (kills + 1)
    while any(thread.is_alive() for thread in threads) or killed < kills:
        assert server.process is not None
        if server.process.poll() is not None:
            server.__exit__()
            server.start()
            found.starts += 1
        if killed < kills and len(found.times) >= min(next_kill * (killed + 1), 0.98 * clients * each):
            time.sleep(rng.random() / 20)
            with suppress(OSError, IndexError, ValueError):
                os.kill(server.process.pid if killed % 2 else server.vault(), 9)
                killed += 1
        time.sleep(0.005)
    for thread in threads:
        thread.join()
    server.wait()
    server.__exit__()
    return found, found.check()


def in_process(folder: Path, count: int) -> float:
    """Seconds of the same releases in one process, without a door."""
    ledger = ldp.LedgerFile(folder / "one.db")
    ledger.add("people", ldp.Budget(1000))
    ledger.reserve("people", {"ana": 1})
    account = ledger.dataset("people", analyst="ana")
    curator = Curator(labels(), domain=DOMAIN, ledger=account, ids=np.arange(300))
    began = time.monotonic()
    for number in range(count):
        curator.release(mechanism(0, number), rng=account.randomness)
    return time.monotonic() - began


def page(clients: int, requests: int, kills: int) -> str:
    """Run it without and with kills, and write a page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = min(requests, 500)
        alone = in_process(folder, count) / count
        began = time.monotonic()
        calm, counted = storm(folder / "calm", clients, min(requests, 1000), 0)
        seconds = (time.monotonic() - began) / counted["asked"]
        wild, rows = storm(folder / "wild", clients, requests, kills)
    late = statistics.quantiles(calm.times, n=100)[98]
    listed = "\n".join(f"| {name} | {value:,} |" for name, value in rows.items())
    return f"""# A server that is killed

`PYTHONPATH=tests python tests/serve/storm.py --clients {clients} --requests {requests} --kills {kills}`
(`make serve-faults` has 200 kills): so many clients ask one server of 300 labels, and front or vault gets SIGKILL
at random moments. Each client asks for releases of its own, every {AGAIN}th time for an earlier one. A supervisor
starts the server again ({wild.starts} times here).

| counted afterwards | |
|---|---|
{listed}

Without kills, {counted["asked"]:,} requests of {clients} clients at once: {seconds * 1000:.0f} ms a request, and a 99th
percentile of {late:.2f} s, which is mostly waiting: the vault answers one request after the other. The same releases
in one process, without a door: {alone * 1000:.0f} ms each, {seconds / alone:.1f} times less. Times are of one run on a
shared machine of two cores; each release waits for the disk at its charge, and the log once more.
"""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, default in (("--clients", 64), ("--requests", 5000), ("--kills", 200)):
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--page", type=Path)
    given: Any = parser.parse_args()
    text = page(given.clients, given.requests, given.kills)
    print(text)
    if given.page:
        given.page.write_text(text)
