"""A network that an earlier fit left, to start another one from."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.privacy import InputError, Public
from labeldp.workflows.bundle import ESTIMATOR, Bundle, file_digest, read_certified
from labeldp.workflows.ledger_file import DatasetLedger


@dataclass(frozen=True)
class FirstWeights:
    """Weights that were learned from other labels.

    Args:
        network: fitted, and on what condition it costs nothing here.
        digest: of the file that it was in.
    """

    network: Public[Any] = field(repr=False)
    digest: str

    @classmethod
    def read(cls, path: str, account: DatasetLedger) -> "FirstWeights":
        """The network in a directory that `labeldp fit` wrote.

        Args:
            path: of the directory.
            account: what the new fit is charged to: weights that were learned from its own labels are refused, since
                their charges would have to stand in the new certificate.

        Raises:
            InputError: no such directory, no network in it, or one that was learned from these labels.
        """
        folder = Path(path)
        certificate, estimator = read_certified(folder)[0], Bundle.read(folder).model.estimator
        found = [part for part in getattr(estimator, "parts", [estimator]) if hasattr(part, "network_")]
        if not found:
            raise InputError(f"--init: {path} must hold a network, as --model cnn makes it")
        shared = {charge.id for charge in certificate.entries} & {charge.id for charge in account.charges}
        if shared or certificate.dataset == account.name:
            raise InputError(
                f"--init: {path} was learnt from labels of a dataset {certificate.dataset!r}, like this one: take "
                "--stages 2 for the same labels, or give other ones another --dataset name"
            )
        condition = (
            f"the labels that the first weights ({folder.resolve().name}) were learnt from are public, or those of "
            f"other records, which that model's own certificate protects (dataset {certificate.dataset!r})"
        )
        return cls(Public(found[-1], why=condition), file_digest(folder / ESTIMATOR) or "")
