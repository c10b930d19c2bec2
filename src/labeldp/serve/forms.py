"""Mechanisms as messages: each is described by its arguments, and built again from them by whoever receives it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp import mechanisms
from labeldp.mechanisms import CandidateSets, Domain, GridChoices, GridRows, Mechanism, PublicInput
from labeldp.privacy import Certificate, InputError, Public, set_fields
from labeldp.serve.wire import packed, text_of, unpacked

MAX_REASON = 1000
"""The most characters of a reason."""

MAX_COUNTS = 1 << 24
"""The most counts that one release may have."""

GIVEN = "given by an analyst"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Form:
    """How a mechanism is described.

    Args:
        plain: the arguments that are numbers or texts, which it has as attributes.
        arrays: returns its arrays, by the name of the argument that each stands for.
        arguments: returns these arguments of the constructor, from the arrays and the domain.
    """

    plain: tuple[str, ...] = ("epsilon",)
    arrays: Callable[[Any], Arrays] = lambda mechanism: {}
    arguments: Callable[[Arrays, Domain], dict[str, Any]] = lambda arrays, domain: dict(arrays)


def _grouped(mechanism: Any) -> Arrays:
    if mechanism.partition.of_record is None:
        raise InputError("must be given for each record: workers hold no labels of a server", argument="groups")
    return {"groups": mechanism.partition.of_record}


def _few(arrays: Arrays, domain: Domain) -> dict[str, Any]:
    """Return groups whose numbers are so small that their counts fit into memory, though some may be empty."""
    groups = arrays["groups"]
    if groups.dtype.kind not in "iu" or int(groups.max(initial=0) + 1) * domain.size > MAX_COUNTS:
        raise InputError(
            f"must be integers of so few groups that there are at most {MAX_COUNTS:,} counts", argument="groups"
        )
    return {"groups": groups}


def _filled(arrays: Arrays, domain: Domain) -> dict[str, Any]:
    """Return bags, none of which can be empty."""
    bags = arrays["bags"]
    if bags.dtype.kind not in "iu" or int(bags.max(initial=0)) >= max(1, len(bags)):
        raise InputError("must be integers below the number of records", argument="bags")
    return dict(arrays)


def _rows(mechanism: Any) -> Arrays:
    rows = mechanism.rows
    if not isinstance(rows, GridRows) or rows.persons is not None:
        raise InputError("must be rows for each record, and no persons", argument="features")
    return {"features": rows.steps, "grid": np.array([rows.clip, rows.resolution], dtype=np.float64)}


def _on_grid(arrays: Arrays, domain: Domain) -> dict[str, Any]:
    steps, grid = arrays["features"], arrays["grid"]
    if steps.ndim != 2 or steps.dtype != np.int16 or grid.shape != (2,):
        raise InputError("must be rows in steps of a grid", argument="features")
    return {"features": GridRows.held_steps(steps, float(grid[0]), int(grid[1]))}


def _choices(mechanism: Any) -> Arrays:
    return {"rows": mechanism.choices.steps, "grid": np.array([mechanism.choices.unit], dtype=np.float64)}


def _chosen(arrays: Arrays, domain: Domain) -> dict[str, Any]:
    steps, grid = arrays["rows"], arrays["grid"]
    if steps.dtype != np.int16 or grid.shape != (1,):
        raise InputError("must be rows in steps of a grid", argument="rows")
    return {"rows": GridChoices.held_steps(steps, float(grid[0]))}


def _bagged(mechanism: Any) -> Arrays:
    if mechanism.partition.of_record is None or mechanism.protected is not None:
        raise InputError("must be given for each record, and without persons", argument="bags")
    return {"bags": mechanism.partition.of_record}


def _sets(arrays: Arrays, domain: Domain) -> dict[str, Any]:
    return {"prior": CandidateSets(np.array(arrays["prior"]), domain.size)}


def _top(mechanism: Any) -> Arrays:
    members = mechanism.membership()[0]
    return {"prior": members / members.sum()}


def _weighed(mechanism: Any) -> Arrays:
    return {"prior": mechanism.chances} if mechanism.public_inputs else {}


def _table(mechanism: Any) -> Arrays:
    return {**_bagged(mechanism), "features": mechanism.table}


GROUPED = Form(arrays=_grouped, arguments=_few)
"""Mechanisms on public groups of records."""

FORMS: dict[str, Form] = {
    "RandomizedResponse": Form(),
    "RandomizedResponseTopK": Form(("epsilon", "k"), _top),
    "RandomizedResponseWithPrior": Form(arrays=lambda mechanism: {"prior": mechanism.arrays()}, arguments=_sets),
    "UnaryEncoding": Form(),
    "PartitionResponse": Form(("epsilon", "groups", "seed")),
    "SubsetResponse": Form(("epsilon", "size")),
    "DiscreteLaplace": Form(),
    "UnbiasedNumbers": Form(arrays=_weighed),
    "ResponseOnBins": Form(("epsilon", "bins", "cuts"), _weighed),
    "GaussianOneHot": Form(("epsilon", "delta")),
    "LaplaceHistogram": GROUPED,
    "LaplaceSum": GROUPED,
    "ExponentialMechanism": GROUPED,
    "PermuteAndFlip": GROUPED,
    "SquaredErrors": Form(arrays=lambda mechanism: {"predictions": mechanism.predicted.of_record}),
    "GaussianMoment": Form(("epsilon", "delta"), _rows, _on_grid),
    "GaussianChoice": Form(("epsilon", "delta"), _choices, _chosen),
    "LaplaceMoment": Form(("epsilon",), _rows, _on_grid),
    "BagSum": Form(("size", "noise", "epsilon", "delta"), _bagged, _filled),
    "NoisyWeightedLLP": Form(
        ("size", "noisy", "stddev", "weights", "paper_faithful", "epsilon", "delta"), _bagged, _filled
    ),
    "WeightedLBA": Form(("size", "rows", "bag_noise", "epsilon", "delta"), _table, _filled),
}
"""The mechanisms that a server knows. What promises nothing, or only on a condition, has no form."""


def _plain(mechanism: Any, name: str) -> Any:
    if name == "k":
        return int(mechanism.candidates.sizes[0])
    if name == "stddev" and mechanism.epsilon is not None:
        return "auto"
    return getattr(mechanism, name)


def described(mechanism: Mechanism) -> dict[str, Any]:
    """Return a mechanism as values of JSON, with its arrays and what they rest on.

    Raises:
        InputError: a mechanism that servers do not know, or one that promises something on a condition alone.
    """
    name = type(mechanism).__name__
    if name not in FORMS or type(mechanism) is not getattr(mechanisms, name, None):
        raise InputError(f"a server does not release by {name}: it knows {', '.join(FORMS)}", argument="mechanism")
    form = FORMS[name]
    return {
        "name": name,
        "arguments": {each: _plain(mechanism, each) for each in form.plain},
        "arrays": {each: packed(array) for each, array in form.arrays(mechanism).items()},
        "inputs": [
            {
                "name": each.name,
                "why": each.why,
                "releases": [[charge.id for charge in one.entries] for one in each.certificates],
            }
            for each in mechanism.public_inputs
        ],
        "specification": mechanism.specification(),
    }


def rebuilt(content: Any, domain: Domain, basis: Callable[[list[str]], Certificate]) -> Mechanism:
    """Build a mechanism on a domain from what `described` returned; nothing that it says of itself is believed.

    Args:
        content: the description.
        domain: the declared domain of the labels.
        basis: returns the certificate of earlier releases to the same analyst, by the ids of their charges.

    Raises:
        InputError: an unknown mechanism, wrong arguments, or a specification that is not that of these arguments.
    """
    if not isinstance(content, Mapping):
        raise InputError("must be the description of one", argument="mechanism")
    name = text_of(content, "name")
    if name not in FORMS:
        raise InputError(f"is none that this server knows: {', '.join(FORMS)}", argument="mechanism")
    form, given = FORMS[name], content.get("arguments")
    if not isinstance(given, Mapping) or set(given) != set(form.plain) or not all(map(_is_plain, given.values())):
        raise InputError(f"must have the arguments {', '.join(form.plain)}, numbers or texts", argument="mechanism")
    sent = content.get("arrays")
    if not isinstance(sent, Mapping) or len(sent) > 2:
        raise InputError("must be a few arrays by name", argument="arrays")
    arrays = {str(each): unpacked(array, str(each)) for each, array in sent.items()}
    inputs = _inputs(content.get("inputs"), basis)
    try:
        public = {each: Public(value, why=GIVEN) for each, value in form.arguments(arrays, domain).items()}
        mechanism: Mechanism = getattr(mechanisms, name)(domain=domain, **given, **public)
        names = {each.name for each in mechanism.public_inputs}
        if {each.name for each in inputs} != names:
            raise InputError(f"must say why the {' and the '.join(sorted(names)) or 'nothing'} is public, and no more")
        set_fields(mechanism, public_inputs=inputs)
        mechanism.privacy_loss()
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, MemoryError):
        raise InputError("cannot be made of these arguments", argument="mechanism") from None
    if mechanism.specification() != content.get("specification"):
        raise InputError(
            "is not what its arguments make here: is it on another domain, or of another version of labeldp?",
            argument="mechanism",
        )
    return mechanism


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 64)


def _inputs(content: Any, basis: Callable[[list[str]], Certificate]) -> tuple[PublicInput, ...]:
    """Return what the arrays of a mechanism rest on: reasons, and releases to the same analyst."""
    wrong = InputError("must say for each array why it is public", argument="inputs")
    if not isinstance(content, list) or len(content) > 4:
        raise wrong
    found = []
    for each in content:
        if not isinstance(each, Mapping) or not isinstance(each.get("releases"), list):
            raise wrong
        why = text_of(each, "why", MAX_REASON)
        listed = each["releases"]
        if not all(isinstance(ids, list) and ids and all(isinstance(one, str) for one in ids) for ids in listed):
            raise wrong
        if not why and not listed:
            raise wrong
        found.append(PublicInput(text_of(each, "name"), why, tuple(basis(ids) for ids in listed)))
    return tuple(found)
