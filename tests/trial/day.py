"""The first day of three users, in an empty home: the README step by step, then a hospital's table.

    make trial     # the whole: 80,000 records, times and peak memory to docs/results/first-day.md

Each step is one command or one Python program, in a separate process, as on a user's machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from guide.blocks import examples  # noqa: E402

COLUMNS = 49
CLASSES = "NO,>30,<30"


@dataclass(frozen=True)
class Step:
    """One step of a user: a command or a Python program, and its expected status."""

    who: str
    what: str
    source: str
    command: bool = True
    status: int = 0


def hospital(records: int, seed: int = 0) -> pd.DataFrame:
    """Return a synthetic table of hospital stays: 49 columns, several stays per user, missing values, three classes.

    The label says whether the user came back: not at all, after more than 30 days, or earlier.
    """
    rng = np.random.default_rng(seed)
    user = rng.integers(0, max(1, int(records / 1.6)), records)
    columns: dict[str, object] = {"stay": np.arange(records) + 10_000, "patient": user}
    columns["age"] = rng.choice([f"[{n}-{n + 10})" for n in range(0, 100, 10)], records)
    columns["days"] = rng.integers(1, 15, records)
    columns["weight"] = np.where(rng.random(records) < 0.9, np.nan, rng.normal(75, 15, records).round(1))
    columns["ward"] = rng.choice(["surgery", "cardiology", None, "internal", "other"], records).astype(object)
    visits = rng.poisson(0.8, records)
    columns["visits"] = visits
    for number in range(3):
        codes = rng.integers(1, 400, records).astype(str).astype(object)
        codes[rng.random(records) < 0.02] = None
        columns[f"diagnosis_{number + 1}"] = codes
    for number in range(18):
        drug = rng.choice(["No", "Steady", "Up", "Down"], records, p=[0.8, 0.15, 0.03, 0.02])
        columns[f"drug_{number + 1}"] = drug
    while len(columns) < COLUMNS - 1:
        lab = rng.normal(size=records).round(3)
        lab[rng.random(records) < 0.05] = np.nan
        columns[f"lab_{len(columns)}"] = lab
    risk = (
        0.7 * visits + 0.12 * np.asarray(columns["days"]) + (columns["drug_1"] != "No") + rng.logistic(0, 0.7, records)
    )
    columns["readmitted"] = np.select([risk > 3.4, risk > 2.1], ["<30", ">30"], "NO")
    return pd.DataFrame(columns)


def readme() -> Iterator[Step]:
    """Yield every example of README.md, after the program that writes its files."""
    files = examples((ROOT / "docs" / "get-started.md").read_text())[0]
    yield Step("README", "sample data (docs/get-started.md)", files.source, command=False)
    for each in examples((ROOT / "README.md").read_text()):
        what = each.source if each.kind == "command" else f"the Python example, line {each.line}"
        yield Step("README", what, each.source, command=each.kind == "command")


SCIKIT_LEARN = """
import pandas as pd
import labeldp as ldp

table = pd.read_csv("stays.csv")
X, y = table.drop(columns=["stay", "patient", "readmitted"]), table["readmitted"]
model = ldp.LabelDPClassifier(epsilon=2, delta=1e-6, trust="central", classes=("NO", ">30", "<30"))
model.fit(X, y, ids=table["stay"])
assert model.predict_proba(X[:9]).shape == (9, 3) and set(model.predict(X[:99])) <= {"NO", ">30", "<30"}
assert 0.3 < model.evaluation_.accuracy().value < 1
ldp.report.write_report(model, "sklearn.html", X)
"""

PYTORCH = """
import pandas as pd
import torch
import labeldp as ldp
from labeldp.networks import NetworkClassifier, Recipe

table = pd.read_csv("stays.csv")
numbers = table.drop(columns=["stay", "patient"]).select_dtypes("number").drop(columns="weight")
X = numbers.fillna(numbers.mean()).to_numpy("float32")
module = torch.nn.Sequential(torch.nn.Linear(X.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
network = NetworkClassifier(module=module, recipe=Recipe(epochs=3, batch=256, peak=0.02, augment=()))
ledger = ldp.LedgerFile("torch.ledger")
ledger.add("readmitted", ldp.Budget(epsilon=3))
domain = ldp.Classes(("NO", ">30", "<30"))
curator = ldp.Curator(table["readmitted"], domain=domain, ledger=ledger.dataset("readmitted"), ids=table["stay"])
model = ldp.fit_multistage(X, curator, classifier=network, epsilon=3, rng=ledger.dataset("readmitted").randomness)
print(model.value.evaluation.accuracy(), model.certificate.at(0))
"""

TAMPER = """
from pathlib import Path

model = Path("stays_model")
report = (model / "report.html").read_text()
(model / "report.html").write_text(report.replace("epsilon", "epsilom", 1))
"""


def users(model: str) -> Iterator[Step]:
    """Yield the steps of the three users of stays.csv; `model` is the `--model` of `labeldp fit`."""
    label = f"--label readmitted --classes '{CLASSES}'"
    account = "--ledger stays.ledger --dataset readmitted --id stay"
    fit = f"labeldp fit stays.csv {label} --epsilon 2 {account} --user patient --model {model} --out stays_model"
    scikit = "pandas and scikit-learn"
    yield Step(scikit, "choose", f"labeldp choose stays.csv {label} --epsilon 2 --id stay --user patient")
    yield Step(scikit, "a budget", "labeldp ledger add stays.ledger --dataset readmitted --epsilon 3")
    yield Step(scikit, f"fit --model {model}", fit)
    yield Step(scikit, "the same fit again, free", fit)
    yield Step(scikit, "predict", "labeldp predict stays_model new_stays.csv --out stays_predictions.csv --id stay")
    yield Step(
        scikit,
        "above the budget",
        fit.replace("--epsilon 2", "--epsilon 9").replace("stays_model", "another"),
        status=1,
    )
    yield Step(scikit, "LabelDPClassifier, and its report", SCIKIT_LEARN, command=False)
    if find_spec("torch"):
        yield Step("PyTorch", "a custom module", PYTORCH, command=False)
    yield Step("auditor", "certificate", "labeldp certificate stays_model")
    yield Step("auditor", "certificate against the ledger", "labeldp certificate stays_model --ledger stays.ledger")
    yield Step("auditor", "ledger show", "labeldp ledger show stays.ledger")
    yield Step("auditor", "sign", "labeldp sign stays_model --key me.pem --new-key")
    yield Step("auditor", "check the signature", "labeldp certificate stays_model --signed-by me.pem.pub")
    yield Step("auditor", "the report is changed", TAMPER, command=False)
    yield Step("auditor", "the change is detected", "labeldp certificate stays_model --signed-by me.pem.pub", status=1)


def make_tables(records: int) -> None:
    """Write stays.csv, and new_stays.csv without labels, into the current folder."""
    hospital(records).to_csv("stays.csv", index=False)
    hospital(500, seed=1).drop(columns="readmitted").to_csv("new_stays.csv", index=False)


@dataclass(frozen=True)
class Ran:
    """The result of a step."""

    step: Step
    seconds: float
    megabytes: float
    said: str


def run(step: Step, home: Path) -> Ran:
    """Run a step in a separate process; raise an AssertionError unless it has the expected status."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(home)}
    words = ["/bin/sh", "-c", f"exec {step.source}"] if step.command else [sys.executable, "-c", step.source]
    with tempfile.TemporaryFile("w+") as said:
        start = time.monotonic()
        process = subprocess.Popen(words, cwd=home, env=environment, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds, process.returncode = time.monotonic() - start, os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    assert process.returncode == step.status, f"{step}: {text}"
    assert "Traceback" not in text, text
    return Ran(step, seconds, usage.ru_maxrss / 1024, text)


def page(ran: list[Ran], records: int, load: float) -> str:
    """Return the page of results; `load` is the mean number of running processes on the machine."""
    lines = [
        "# First day",
        "",
        "`make trial` runs the first day of three users in an empty home. It runs the README step by step, and then a",
        f"synthetic table of hospital stays with {records:,} records and {COLUMNS} columns. The table has several",
        "stays per user, missing values, and the classes `NO`, `>30` and `<30`. Each step is a separate process with",
        f"one thread. The load of the machine was {load:.0f} on {os.cpu_count()} cores.",
        "The peak memory of a step includes the memory of the program that starts it.",
        "",
        "| User | Step | Seconds | Peak memory (MB) |",
        "|---|---|---|---|",
    ]
    for each in ran:
        what = each.step.what.replace("|", "\\|")
        what = f"`{what}`" if what.startswith("labeldp ") else what
        lines.append(f"| {each.step.who} | {what} | {each.seconds:.1f} | {each.megabytes:,.0f} |")
    total, most = sum(each.seconds for each in ran), max(each.megabytes for each in ran)
    lines += ["", f"All steps together take {total:,.0f} seconds. No step takes more than {most:,.0f} MB.", ""]
    return "\n".join(lines)


def main() -> None:
    """Run the day, and print or write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=80_000)
    parser.add_argument("--model", default="boosting")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    ran, loads = [], [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for step in readme():
            ran.append(run(step, home))
            print(f"{ran[-1].seconds:6.1f} s  {step.who}: {step.what}", flush=True)
        os.chdir(home)
        make_tables(asked.records)
        for step in users(asked.model):
            ran.append(run(step, home))
            loads.append(os.getloadavg()[0])
            print(f"{ran[-1].seconds:6.1f} s  {step.who}: {step.what}", flush=True)
        os.chdir(ROOT)
    text = page(ran, asked.records, float(np.mean(loads)))
    print(text) if asked.out is None else asked.out.write_text(text)


if __name__ == "__main__":
    main()
