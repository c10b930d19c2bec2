"""A server of one dataset in a process of its own, for tests."""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import labeldp as ldp
from labeldp.serve import NO_ISOLATION, RemoteCurator, ServerConnection, connect, hashed

TOKENS = {"ana": "ldp_ana-of-the-tests-0123456789abcdef", "ben": "ldp_ben-of-the-tests-0123456789abcdef"}

RUN = "import sys; from labeldp.serve import serve; sys.exit(serve(sys.argv[1]))"

CLASSES = ("no", "yes", "maybe")


class Server:
    """A folder with labels and a configuration, and the server of it."""

    def __init__(
        self, folder: Path, labels: Any, domain: str = f"classes = {list(CLASSES)}", budget: str = "epsilon = 100",
        shares: dict[str, float] | None = None, limits: str = "quantum = 0.002", more: str = "", top: str = "",
        expires: str = "",
    ) -> None:  # fmt: skip
        self.folder, self.process = folder, None
        self.address = f"unix:{folder / 'door.sock'}"
        folder.mkdir(exist_ok=True)
        rows = "\n".join(f"{100 + row},{label},{row % 7}" for row, label in enumerate(labels))
        (folder / "labels.csv").write_text(f"id,answer,day\n{rows}\n")
        shared = shares if shares is not None else {"ana": 0.5, "ben": 0.5}
        people = "\n".join(f'[analyst.{who}]\ntoken = "{hashed(token)}"\n{expires}' for who, token in TOKENS.items())
        (folder / "serve.toml").write_text(f"""
address = "unix:door.sock"
state = "state"
isolation = "{NO_ISOLATION}"
{top}
[limits]
{limits}
{people}
[dataset.people]
labels = "labels.csv"
label = "answer"
id = "id"
{domain}
{budget}
ledger = "people.db"
{more}
[dataset.people.shares]
{chr(10).join(f"{who} = {share}" for who, share in shared.items())}
""")

    def start(self, here: Path | None = None) -> "Server":
        """Start it, in a folder if one is given."""
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", RUN, str(self.folder / "serve.toml")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here,
        )  # fmt: skip
        return self

    def wait(self) -> "Server":
        """Wait until it answers."""
        assert self.process is not None
        for _ in range(600):
            if self.process.poll() is not None:
                raise AssertionError(self.process.stderr.read() if self.process.stderr else "")
            with suppress(ldp.LabelDPError):
                ServerConnection(self.address, TOKENS["ana"], tries=1).ask("datasets", {})
                return self
            time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def refusal(self) -> str:
        """What it says as it refuses to start."""
        assert self.process is not None
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode
        return said

    def stop(self, kind: int = signal.SIGTERM) -> str:
        assert self.process is not None
        self.process.send_signal(kind)
        _, said = self.process.communicate(timeout=60)
        return said

    def vault(self) -> int:
        """The process of the vault."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def curator(self, who: str = "ana", **more: Any) -> RemoteCurator:
        return connect(self.address, token=TOKENS[who], **more)

    def ledger(self, who: str = "") -> Any:
        return ldp.LedgerFile(self.folder / "people.db").dataset("people", analyst=who)

    def __enter__(self) -> "Server":
        return self.start().wait()

    def __exit__(self, *args: Any) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()
        for stream in (self.process.stdout, self.process.stderr) if self.process is not None else ():
            if stream:
                stream.close()


def labels(count: int = 300, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.array(CLASSES)[np.random.default_rng(seed).integers(3, size=count)]
