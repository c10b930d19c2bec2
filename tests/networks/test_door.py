"""Networks learn from labels that a server holds as they do where the labels are."""

from pathlib import Path

import numpy as np

import labeldp as ldp
from labeldp.curator import Curator, copy_ledger
from labeldp.networks import fit_descent, linear_module
from serve.server import CLASSES, Server, labels

ROWS = np.random.default_rng(1).normal(size=(300, 4)).astype(np.float32)


def test_gradient_steps_are_the_same_through_the_door(tmp_path: Path) -> None:
    module = ldp.Public(linear_module(4, 3), why="zeros")
    with Server(tmp_path / "s", labels(), budget="epsilon = 20\ndelta = 1e-4") as server:
        copy = copy_ledger(server.folder / "people.db", tmp_path / "copy.db", values=True)
        account, ids = copy.dataset("people", analyst="ana"), np.arange(100, 400).astype(str)
        here = Curator(labels(), domain=ldp.Classes(CLASSES), ledger=account, ids=ids, run="descent")
        pairs = ((server.curator(run="descent"), ldp.SystemRandomness()), (here, account.randomness))
        there, same = (
            fit_descent(ROWS, curator, module=module, epsilon=2, delta=1e-6, rng=rng, epochs=1)
            for curator, rng in pairs
        )
    assert np.array_equal(there.value.predict(ROWS), same.value.predict(ROWS))
    assert [each.loss for each in there.certificate.entries] == [each.loss for each in same.certificate.entries]
