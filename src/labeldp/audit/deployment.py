"""A certificate as a record of the OpenDP deployments registry, in YAML."""

import json
from fractions import Fraction
from typing import Any

from labeldp.privacy import (
    Certificate,
    InputError,
    RandomnessKind,
    Trust,
    Unit,
    float_above,
    one_line,
    promised,
    requested_delta,
)

FILL_IN = "fill in"
"""The comment at values that no certificate has: a draft holds a permitted value there."""

UNITS = {Unit.ONE_LABEL: "one label", Unit.ONE_USER: "user", Unit.FULL: "one record"}

PRODUCTS = {"fit": "Machine learning model", "aggregate": "Summary statistics"}
"""The registry's word for what a request gives; for any other it is a dataset."""

UNPROTECTED = (
    "Everything but the labels: features, ids and the number of records are public (label differential privacy)."
)

COMPOSITION = {
    "block": "The exact curve of one release, or of a plan that was declared before its first release.",
    "sum": "The sum of the pure costs of these outputs, and others might have cost more; parts of a split count once.",
    "budget": "The budget of a ledger, which no sequence of adaptively chosen releases exceeds.",
}

Node = dict[str, Any] | list[Any] | str | float | int


def deployment_record(certificate: Certificate, delta: Any = None) -> str:
    """Return a draft for the OpenDP deployments registry, as YAML.

    It holds all that the certificate states. What no certificate states has the comment "fill in", such as the name of
    the data curator. The record follows the registry's schema of April 2026 (`schemas/deployments-schema.yaml` of
    opendp/deployments-registry-data, commit 057e5d81).

    Args:
        certificate: of a release with a guarantee.
        delta: at which the guarantee is read; by default the one that was requested.

    Raises:
        InputError: there is no guarantee at this delta.
    """
    promise = promised(certificate.entries, requested_delta(certificate.entries) if delta is None else delta)
    nothing = certificate.trust is Trust.NONE or certificate.randomness is RandomnessKind.SIMULATION
    if nothing or any(part.epsilon == float("inf") for part in (promise, *promise.others)):
        raise InputError("the certificate guarantees nothing at this delta: it is no deployment to register")
    guarantees = (promise, *promise.others)
    epsilon = max(part.epsilon for part in guarantees)
    exact = max((part.delta for part in guarantees if part.kind != "sum"), default=Fraction(0))
    facts = [charge.facts for charge in certificate.entries]
    dates = sorted(fact["charged"][:10] for fact in facts if "charged" in fact)
    records = {fact["records"] for fact in facts if fact.get("records", "").isdecimal()}
    kind = certificate.request.kind if certificate.request else ""
    names = dict.fromkeys(str(charge.mechanism.get("mechanism", "")) for charge in certificate.entries)
    versions = ", ".join(sorted({fact["version"] for fact in facts if "version" in fact}))
    loss: dict[str, Any] = {
        "privacy_unit": UNITS.get(certificate.neighbors, "the losses of one round"),
        "privacy_unit_details": f"{certificate.neighbors.value} (dataset {certificate.dataset})",
        "privacy_parameters": {"epsilon": epsilon} | ({"delta": float_above(exact)} if exact else {}),
        "privacy_parameters_details": str(certificate),
    }
    if certificate.neighbors is Unit.ONE_LABEL and len(records) == 1:
        loss["number_of_privacy_units"] = int(records.pop())
    record: dict[str, Any] = {
        "url_slug": "_".join("".join(c if c.isalnum() and c.isascii() else " " for c in certificate.dataset).split()),
        "deployment": {
            "basic": {
                "name": f"Release of {certificate.dataset}",
                "data_curators": [
                    {"data_curator_name": Placeholder(FILL_IN), "data_curator_type": Placeholder("Industry")}
                ],
                "description": certificate.published,
                "intended_use": Placeholder(FILL_IN),
                "data_product_type": PRODUCTS.get(kind, "Dataset"),
                "data_product_region": Placeholder(FILL_IN),
                "publication_date": dates[-1] if dates else Placeholder("1900-01-01"),
            },
            "dp_variant": {
                "variant_name": "Approximate DP" if exact else "Pure DP",
                "data_domain": _domains(certificate),
                "unprotected_quantities": UNPROTECTED,
            },
            "privacy_loss": loss,
            "deployment_model": {
                "model_name": "Local" if certificate.trust is Trust.LOCAL else "Central",
                "model_name_details": certificate.trust.value,
                "trust_assumptions": " ".join(f"{text}." for text in certificate.assumptions) or "none",
                "release_type": "Many releases" if kind == "online" else "One release",
                "data_source_type": "Dynamic" if certificate.cohorts or kind == "online" else "Static",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "mechanisms": f"{', '.join(names)}, by labeldp {versions}".rstrip(),
                "composition": COMPOSITION[promise.kind],
            },
            "administrative": {"status": "Draft", "registry_authors": [Placeholder(FILL_IN)], "tier": 3},
        },
    }
    record["url_slug"] = record["url_slug"].lower() or Placeholder(FILL_IN)
    return "\n".join(_lines(record)) + "\n"


class Placeholder(str):
    """A text that the reader of a record replaces."""


def _domains(certificate: Certificate) -> str:
    """Return the datasets that are protected: the declared domains of their labels, as JSON."""
    domains = [charge.mechanism["domain"] for charge in certificate.entries if "domain" in charge.mechanism]
    forms = sorted({json.dumps(domain, sort_keys=True) for domain in domains})
    return f"Labels in the declared domain {' or '.join(forms)}" if forms else "Sequences of losses, one row a round"


def _lines(node: Node, indent: str = "") -> list[str]:
    """Return the lines of a mapping or a list in block style; scalars are written as in JSON, which YAML contains."""
    lines = []
    for key, value in node.items() if isinstance(node, dict) else [("-", value) for value in node]:  # type: ignore[union-attr]
        head = "-" if key == "-" else f"{key}:"
        if isinstance(value, (dict, list)):
            lines += [f"{indent}{head}", *_lines(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{head} {_scalar(value)}{f'  # {FILL_IN}' if isinstance(value, Placeholder) else ''}")
    return lines


def _scalar(value: Any) -> str:
    """Return a scalar that every version of YAML reads as JSON does: exponents follow a point."""
    if isinstance(value, str):
        return json.dumps(one_line(value), ensure_ascii=False)
    text = json.dumps(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else text
