"""Every mistake in the table `mistakes.txt` gets one clear line, and nothing is written.

A line is as in `tests/trial/commands.txt`: a command, what is other than in `USUAL`, a bar, and what is said.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Ran
from trial.test_mistakes import contents, rows, whole

USUAL = {
    "multistage": "--dataset npz --data digits.npz --classes 4 --epsilon 1 --method linear --out runs",
    "rates": "--out runs --rows classes --epsilon 1 --seeds 1",
    "aggregation": "--out runs --tables lba --seeds 1",
    "online": "--out runs --tables exponents --seeds 1",
}
"""Each command as it works."""


@pytest.mark.parametrize(("line", "words"), rows(Path(__file__).with_name("mistakes.txt")))
def test_a_mistake_in_a_command_gets_one_line(papers: Callable[..., Ran], line: str, words: str) -> None:
    pictures = np.random.default_rng(0).integers(0, 255, (40, 8, 8), np.uint8)
    np.savez("digits.npz", images=pictures, labels=np.arange(40) % 4)
    Path("mine.csv").touch()
    before = contents()
    ran = papers(*whole(line, USUAL))
    errors = [each for each in ran.err.splitlines() if each.startswith("Error: ")]
    assert ran.status != 0 and len(errors) == 1 and words in errors[0].replace(f"{Path.cwd()}/", ""), ran
    assert ran.err.endswith(f"{errors[0]}\n"), ran.err
    assert contents() == before
