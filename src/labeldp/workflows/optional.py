"""The room of networks, imported when something is learned there: it needs torch, an extra."""

from importlib import import_module
from typing import Any

from labeldp.privacy import InputError


def networks() -> Any:
    """The room of networks.

    Raises:
        InputError: torch is not installed.
    """
    try:
        return import_module("labeldp.networks")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
    raise InputError("networks need torch: pip install '.[torch]'; linear models do without it")
