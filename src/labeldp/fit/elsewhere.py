"""The account of a fit whose labels a server holds: what it may spend is a share of the server's ledger."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from labeldp.fit.settings import FitSettings, Ids
from labeldp.privacy import Budget, Certificate, Charge, InputError, Path, SystemRandomness, decimal

if TYPE_CHECKING:
    from labeldp.serve import RemoteCurator


@dataclass(frozen=True)
class RemoteAccount:
    """A share of a dataset that a server holds, as a fit asks for it: a ledger's dataset to everything else in a fit.

    Charges, and how they are found again, are the server's; here nothing is known of them but what it answers.

    Args:
        server: the curator of the dataset.
    """

    server: "RemoteCurator"
    is_new = False
    columns = ()
    ids_key = digest_key = None
    entries = own_entries = charges = ()

    @classmethod
    def of(cls, server: "RemoteCurator", settings: FitSettings, records: int, ids: Ids | None) -> "RemoteAccount":
        """Return the account of a fit, after comparing what is public of its rows with the server's.

        Raises:
            InputError: other records than the server's, or an option that servers do not know.
        """
        for name in ("cohort", "revision", "person_column", "other_ids"):
            if getattr(settings, name):
                flag = "other-ids" if name == "other_ids" else name.partition("_")[0]
                raise InputError(f"--{flag} does not go with --curator: a server has one state of all records")
        if records != server.records:
            raise InputError(
                f"--curator: the server has labels of {server.records:,} records, and the file has {records:,}: the "
                "rows must be those of the labels, in their order"
            )
        if ids is not None:
            server.check_ids(ids)
        return cls(server)

    @property
    def name(self) -> str:
        """The dataset's."""
        return self.server.dataset

    @property
    def randomness(self) -> SystemRandomness:
        """Of which nothing is taken: the server draws the noise."""
        return SystemRandomness()

    @cached_property
    def _before(self) -> dict[str, Any]:
        return self.server.budget

    @property
    def budget(self) -> Budget:
        """The analyst's share of the dataset's epsilon, at the delta of the whole."""
        share = decimal(self._before["epsilon"], "epsilon") * Fraction(self._before["share"])
        return Budget(share, self._before["delta"])

    def used(self) -> Fraction:
        """Return how much of the share is used up by now."""
        return Fraction(self.server.budget["used"])

    def holds(self, charges: Iterable[Charge]) -> bool:
        """Return whether the server released these to the same analyst."""
        try:
            return all(self.server.certificate(charge.id).entries[0] == charge for charge in charges)
        except InputError:
            return False

    def part(self, path: Path) -> Path:
        """Return the part of the records that a charge was about."""
        return path

    def charged_at(self, certificate: Certificate) -> str:
        """Return when the last of some releases was charged, as the server says."""
        return max((str(charge.facts.get("charged", "")) for charge in certificate.entries), default="")
