"""A certificate in forms for other programs."""

import json
from collections.abc import Iterable
from typing import Any

from labeldp.audit.contents import Contents
from labeldp.audit.deployment import deployment_record
from labeldp.audit.loss_distribution import loss_distributions
from labeldp.fit import Check
from labeldp.privacy import Certificate


def format_certificate(
    certificate: Certificate, form: str, *, delta: Any, checks: Iterable[Check], contents: Contents | None
) -> str:
    """Return a certificate in a form for other programs.

    Args:
        certificate: of a release.
        form: "json" (all that `labeldp certificate` says), "opendp" (a draft for the deployments registry of OpenDP) or
            "pld" (privacy loss distributions for dp-accounting).
        delta: at which the guarantee is read.
        checks: what was compared, for "json".
        contents: what the model holds, for "json"; None where there is no model.

    Raises:
        InputError: the certificate guarantees nothing at this delta, which only "json" can say.
    """
    if form == "opendp":
        return deployment_record(certificate, delta)
    if form == "pld":
        return json.dumps(loss_distributions(certificate, delta))
    epsilon = certificate.epsilon(delta)
    content = {
        "words": certificate.at(delta),
        "epsilon": epsilon if epsilon < float("inf") else None,
        "checks": [{"holds": check.holds, "sentence": check.sentence} for check in checks],
        "contents": None if contents is None else contents.to_json(),
        "certificate": certificate.to_json(),
    }
    return json.dumps(content, indent=2, ensure_ascii=False)
