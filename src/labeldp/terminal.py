"""What commands share: how progress is shown."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(title: str) -> Iterator[Callable[[str, float], None] | None]:
    """A progress line on stderr for terminals, else nothing: a function of a text and a share in [0, 1]."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0)

        def show(text: str, share: float) -> None:
            bar.update(task, description=text, completed=share)

        yield show
