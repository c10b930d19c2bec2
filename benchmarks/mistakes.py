"""Mistakes of privacy programs beside detectors: the trace, and a lower bound from outputs.

Programs and honest ones are those of `tests/audit/test_trace.py`; each claims epsilon = 1.

    python benchmarks/mistakes.py --runs 2000 --write
"""

import argparse
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pages

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from audit.test_trace import HONEST, LABELS, MISTAKES  # noqa: E402
from labeldp.audit import audit_outputs, trace  # noqa: E402

LEVEL = 0.9999

HEAD = """| program | trace | lower bound of ε from outputs |
|---|---|---|
"""


def numbers(value: Any) -> list[float]:
    """Return the numbers of an output, one after the other; a part that is missing changes their count."""
    value = getattr(value, "value", value)
    if isinstance(value, tuple | list):
        return [number for item in value for number in numbers(item)]
    return [float(number) for number in np.ravel(np.asarray(value, dtype=np.float64))]


def bound(program: Callable[..., Any], runs: int) -> tuple[float, str]:
    """Return the bound of a program, and in words; outputs are compared by their count and their first numbers."""
    neighbor = LABELS.copy()
    neighbor[0] = 1 - neighbor[0]
    outputs: dict[Any, Any] = {}
    for name, labels in (("base", LABELS), ("neighbor", neighbor)):
        rng, rows = np.random.default_rng(len(name)), []
        for _ in range(runs):
            with redirect_stdout(StringIO()):
                found = numbers(program(labels, rng))
            rows.append([len(found), *np.round(found[:4] + [0.0] * 4, 3)[:4]])
        outputs[name] = np.array(rows)
    found = audit_outputs(outputs, level=LEVEL).epsilon
    return found, f"{found:.2f}: {'found' if found > 1 else 'not found'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--write", action="store_true", help="store the tables in docs/results/data")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, wrong = [], []
    for program, kind in MISTAKES:
        result = trace(program, LABELS, epsilon=1)
        kinds = ", ".join(sorted({finding.kind for finding in result.findings if finding.fails}))
        assert kind in kinds
        epsilon, words = bound(program, asked.runs)
        rows.append(f"| {program.__name__.replace('_', ' ')} | {kinds} | {words} |")
    for program in HONEST[:3]:  # the fourth returns a model
        result, (epsilon, words) = trace(program, LABELS, epsilon=1, pairs=6), bound(program, asked.runs // 4)
        wrong += [program.__name__] if result.verdict != "holds" or epsilon > 1 else []
        rows.append(
            f"| *honest*: {program.__name__.replace('_', ' ')} | {result.verdict} | {words.partition(':')[0]} |"
        )
    assert not wrong, wrong
    page = HEAD + "\n".join(rows) + "\n"
    print(page)
    if asked.write:
        pages.store(page, "mistakes")


if __name__ == "__main__":
    main()
