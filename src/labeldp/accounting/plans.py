"""Declared plans: lists of releases that are charged together, with the first of them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from labeldp.accounting.account import Block, Step
from labeldp.privacy import Path, most_met


@dataclass(frozen=True)
class DeclaredPlan:
    """The steps of a plan, and those that were taken.

    It is charged as one block with the first of its releases; its other steps are then free, in any order and however
    they are chosen. What is not taken is lost.

    Args:
        steps: what was declared.
        taken: what was released, each as the number of its step with the records that it was about.

    Guarantee (whole_plan): whatever takes its steps costs a record no more than all steps together.

    Source: `docs/proofs/account.md`, Theorems 2 and 6.
    """

    steps: tuple[Step, ...]
    taken: tuple[tuple[int, Step], ...] = ()

    @property
    def block(self) -> Block:
        """What is charged with the first release."""
        return Block.of(self.steps)

    def find(self, release: Step) -> int | None:
        """Return the number of a step that a release takes, or None.

        A release takes a step of equal loss whose records include its own. A step that a part took is gone for that
        part, for everything that contains it, for everything inside it, and for the parts of other splits.
        """
        for number, step in enumerate(self.steps):
            inside = step.span[0] <= release.span[0] and release.span[1] <= step.span[1]
            if not inside or step.loss != release.loss or release.path[: len(step.path)] != step.path:
                continue
            takers = [taker for index, taker in self.taken if index == number]
            cohorts = range(release.span[0], release.span[1] + 1)
            if all(_most_taken([*takers, release], cohort, step.path) <= step.times for cohort in cohorts):
                return number
        return None

    def take(self, number: int, release: Step) -> "DeclaredPlan":
        """Return the plan after a release took a step."""
        return replace(self, taken=(*self.taken, (number, release)))


def _most_taken(releases: Iterable[Step], cohort: int, part: Path) -> int:
    """How many of these releases a record of a cohort, in a part of it, meets at most."""
    depth = len(part)
    return most_met(
        (release.path[depth:], release.times) for release in releases if release.span[0] <= cohort <= release.span[1]
    )
