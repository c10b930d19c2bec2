"""Where the training of an interrupted fit waits for the same command."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labeldp.privacy import InputError
from labeldp.workflows.bundle import write_text

MARK = "fit"
"""The file that says which fit the checkpoints are of."""


@contextmanager
def training_folder(out: str, request: str, *, wanted: bool) -> Iterator[Path | None]:
    """The folder OUT.training for checkpoints; gone when the body ends well, or where no training had begun.

    Args:
        out: the directory that the fit will write.
        request: a digest of what is asked for.
        wanted: whether there is anything to keep; None is yielded if not.

    Raises:
        InputError: the folder holds another fit's checkpoints, or something else.
    """
    if not wanted:
        yield None
        return
    folder = Path(out).with_name(f"{Path(out).name}.training")
    mark = folder / MARK
    if folder.exists() and not (mark.is_file() and mark.read_text(encoding="utf-8") == request):
        raise InputError(
            f"{folder} holds checkpoints of another fit: finish that one, remove them, or name another --out"
        )
    folder.mkdir(mode=0o700, exist_ok=True)
    write_text(mark, request)
    try:
        yield folder
    except BaseException:
        if not list(folder.rglob("*.pt")):
            shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)
