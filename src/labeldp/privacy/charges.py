"""Charges, and how they add up: in sequence, except for the parts of one split."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from labeldp.privacy.loss import PrivacyLoss

Path = tuple[tuple[str, int], ...]
"""Where a charge belongs: (split, part) from the outermost split inwards; empty for all records."""


@dataclass(frozen=True)
class Charge:
    """One use of the labels: its cost, the part of the records that it used, and the mechanism's public description."""

    id: str
    path: Path
    loss: PrivacyLoss
    mechanism: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, exact."""
        return {
            "id": self.id,
            "path": [list(step) for step in self.path],
            "loss": self.loss.to_json(),
            "mechanism": dict(self.mechanism),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Charge":
        """The inverse of `to_json`."""
        path = tuple((str(split), int(part)) for split, part in value["path"])
        return cls(str(value["id"]), path, PrivacyLoss.from_json(value["loss"]), dict(value["mechanism"]))


def total_loss(charges: Iterable[Charge]) -> PrivacyLoss:
    """What a label pays at most for all charges together.

    Charges on the same records add up. A record lies in exactly one part of a split, so a split
    costs the worst of its parts; different splits add up, since nothing is known of how they overlap.

    Guarantee: never less than the loss of any single record.
    """
    return _total([(charge.path, charge.loss) for charge in charges])


def _total(charges: list[tuple[Path, PrivacyLoss]]) -> PrivacyLoss:
    total = PrivacyLoss.zero()
    splits: dict[str, dict[int, list[tuple[Path, PrivacyLoss]]]] = {}
    for path, loss in charges:
        if not path:
            total = total + loss
        else:
            (split, part), rest = path[0], path[1:]
            splits.setdefault(split, {}).setdefault(part, []).append((rest, loss))
    for parts in splits.values():
        worst = PrivacyLoss.zero()
        for inner in parts.values():
            worst = worst | _total(inner)
        total = total + worst
    return total
