"""Where an interrupted training goes on: one file for each step, which knows what it is a checkpoint of."""

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from labeldp.networks.inputs import Inputs
from labeldp.networks.objectives import Objective
from labeldp.networks.training import Recipe, Record, State
from labeldp.privacy import InputError


@dataclass(frozen=True)
class Checkpoint:
    """A file and the digest of the run that may use it.

    Args:
        path: None where nothing is kept.
        run: of recipe, inputs, objective and first weights.
    """

    path: Path | None
    run: str

    @classmethod
    def of(
        cls, folder: Any, step: str, state: State, inputs: Inputs, objective: Objective | None, recipe: Recipe
    ) -> "Checkpoint":
        """The checkpoint of a step in a folder, which is made; with no objective, of a training without labels."""
        if folder is None:
            return cls(None, "")
        Path(folder).mkdir(parents=True, exist_ok=True)
        kind = None if objective is None else objective.likelihood
        digest = hashlib.sha256(repr((recipe, inputs.shape, len(inputs), kind)).encode())
        digest.update(inputs.raw.numpy())
        if objective is not None:
            digest.update(objective.rows.numpy())
        for weight in state.network.state_dict().values():
            digest.update(weight.cpu().contiguous().numpy().tobytes())
        return cls(Path(folder) / f"{step.replace(' ', '-')}.pt", digest.hexdigest())

    def save(self, state: State) -> None:
        """Write the state, whole or not at all."""
        if self.path is None:
            return
        content = {
            "run": self.run,
            "network": state.network.state_dict(),
            "optimizer": state.optimizer.state_dict(),
            "generator": state.generator.get_state(),
            "records": [asdict(record) for record in state.records],
        }
        hidden = self.path.with_suffix(".writing")
        torch.save(content, hidden)
        os.replace(hidden, self.path)

    def resume(self, state: State) -> None:
        """Put a state where the file left it, if there is one.

        Raises:
            InputError: the file belongs to another run, or is damaged.
        """
        if self.path is None or not self.path.is_file():
            return
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
            run = content["run"]
        except Exception as error:  # whatever the reader of a damaged file meets
            raise InputError(f"the checkpoint {self.path} is damaged: remove it to start again") from error
        if run != self.run:
            raise InputError(f"{self.path} is a checkpoint of another run: name another folder, or remove it")
        state.network.load_state_dict(content["network"])
        state.optimizer.load_state_dict(content["optimizer"])
        state.generator.set_state(content["generator"])
        state.records = [Record(**each) for each in content["records"]]
        state.epoch = len(state.records)
