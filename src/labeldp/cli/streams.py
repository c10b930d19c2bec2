"""The standard streams of a command: any of them may be closed, full or not in UTF-8, and the work goes on."""

import codecs
import io
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby

__all__ = ["UNPRINTED", "OutputStream", "standard_streams"]

UNPRINTED = 74
"""The exit status of a command that finished, but could not print its result (EX_IOERR of BSD's sysexits.h)."""

WORDS = {
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MIDDLE DOT}": "-",
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{ALMOST EQUAL TO}": "~",
    "\N{INFINITY}": "inf",
    "\N{SQUARE ROOT}": "sqrt ",
    "\N{CHECK MARK}": "+",
    "\N{BALLOT X}": "x",
    "\N{FULL BLOCK}": "#",
    "\N{LIGHT SHADE}": ".",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{REPLACEMENT CHARACTER}": "?",
}
"""ASCII for characters that labeldp prints."""


def spelled(character: str) -> str:
    """Return a character in ASCII.

    Greek letters become their names and bytes of file names `\\xff`; other letters are escaped, because an é that
    became an e would be another name.

    Example:
        >>> [spelled(character) for character in "εé≤…"]
        ['epsilon', '\\\\xe9', '<=', '...']
    """
    if character in WORDS:
        return WORDS[character]
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    match unicodedata.name(character, "").split():
        case ["GREEK", _, "LETTER", letter]:
            return letter.lower()
    if not unicodedata.category(character).startswith("L"):
        plain = unicodedata.normalize("NFKC", character)
        if plain != character:
            return "".join(map(spelled, plain))
    return character.encode("ascii", "backslashreplace").decode()


def _readable(error: UnicodeError) -> tuple[str, int]:
    """Replace what an encoding does not have; a handler for `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    runs = groupby(
        error.object[error.start : error.end],
        key=lambda character: unicodedata.decomposition(character).startswith("<super>"),
    )
    return "".join("^" * raised + "".join(map(spelled, run)) for raised, run in runs), error.end


READABLE = "labeldp.readable"
codecs.register_error(READABLE, _readable)

ASCII = "labeldp-ascii"
"""ASCII under another name: click takes a stream in ASCII for a mistake, and writes UTF-8 to it."""


def _find_ascii(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != ASCII:
        return None
    codec = codecs.lookup("ascii")
    return codecs.CodecInfo(
        codec.encode, codec.decode, codec.streamreader, codec.streamwriter, codec.incrementalencoder,
        codec.incrementaldecoder, name=ASCII,
    )  # fmt: skip


codecs.register(_find_ascii)


class OutputStream(io.TextIOWrapper):
    """A text stream that never stops the work: after a failure everything else that is written to it is dropped.

    A report that cannot be printed must not end a release between its charge and its output.
    """

    failure: OSError | None = None
    """The first error of the system; None if everything was written."""

    def write(self, text: str) -> int:
        """Write a text, and drop it after a failure."""
        try:
            return super().write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        """Write what is buffered, and drop it after a failure."""
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        """Remember an error, and let the descriptor lead nowhere: buffers keep what they could not write."""
        self.failure = self.failure or error
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        super().flush()


@contextmanager
def standard_streams() -> Iterator[None]:
    """Let `sys.stdout` and `sys.stderr` be streams that take every character and never stop the work.

    A closed stream is opened on the null device, so that no other file gets its descriptor.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", encoding="utf-8", closefd=False))
    with ExitStack() as stack:
        for name in ("stdout", "stderr"):
            stack.enter_context(_replaced(name))
        yield


@contextmanager
def _replaced(name: str) -> Iterator[None]:
    """Replace a stream of `sys` on the same buffer; what has none, as in a notebook, stays."""
    stream = getattr(sys, name)
    if not isinstance(stream, io.TextIOWrapper):
        yield
        return
    stream.flush()
    encoding = ASCII if codecs.lookup(stream.encoding).name == "ascii" else stream.encoding
    options = {"line_buffering": stream.line_buffering, "write_through": stream.write_through}
    output = OutputStream(stream.buffer, encoding, READABLE, "\n", **options)
    setattr(sys, name, output)
    try:
        yield
    finally:
        output.flush()
        output.detach()
        setattr(sys, name, stream)
