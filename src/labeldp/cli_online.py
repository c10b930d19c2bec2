"""The group `labeldp online`."""

import click

__all__ = ["online"]


@click.group()
def online() -> None:
    """Decide every round, in private: which of several experts to follow, before their losses are seen."""
