"""Whether the quotes of a CSV text pair up.

A lenient reader goes on to the next quote when one is not closed, and joins the records between them to one
cell without a word. Here a quoted cell may span lines only in a text whose quotes are all in their places.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

QUOTE = ord('"')
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@final
class QuoteCheck:
    """Takes in a CSV text by chunks of bytes.

    Example:
        >>> def sound(text: bytes) -> bool:
        ...     check = QuoteCheck(",")
        ...     check.add(text)
        ...     return check.sound()
        >>> sound(b'1,"two lines\\nin ""one"" cell"\\n'), sound(b'7" x 9", no lines spanned\\n')
        (True, True)
        >>> sound(b'1,"open\\n2,x\\n'), sound(b'1,"open\\n2,"next"\\n3,"last\\n')
        (False, False)
    """

    def __init__(self, delimiter: str) -> None:
        self._edges = np.frombuffer((delimiter + '"\r\n').encode(), dtype=np.uint8)
        self._before = b"\n"
        self._inside = False
        self._spans = False
        self._misplaced = False
        self._started = False

    def add(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        if not self._started:
            chunk = chunk.removeprefix(BYTE_ORDER_MARK)
            self._started = True
        text = self._before + chunk
        if self._inside or b'"' in text:
            self._look(np.frombuffer(text, dtype=np.uint8))
        self._before = text[-1:]

    def sound(self) -> bool:
        """Whether every quote is closed, and none is misplaced in a text with cells that span lines."""
        return not self._inside and not (self._spans and self._misplaced)

    def _look(self, text: NDArray[np.uint8]) -> None:
        """The text begins with the last byte of the chunk before: its successor was not known yet."""
        quotes = np.flatnonzero(text == QUOTE)
        fresh = quotes[quotes > 0]
        opens = (np.arange(len(fresh)) + self._inside) % 2 == 0
        starts, ends = fresh[opens], fresh[~opens]
        if text[0] == QUOTE and not self._inside:  # a quote that closed, or so it seemed
            ends = np.concatenate([[0], ends])
        known = ends[ends < len(text) - 1] + 1
        self._misplaced |= not np.isin(text[starts - 1], self._edges).all()
        self._misplaced |= not np.isin(text[known], self._edges).all()
        lines = np.flatnonzero((text == ord("\n")) | (text == ord("\r")))
        lines = lines[lines > 0]
        self._spans |= bool(((np.searchsorted(fresh, lines) + self._inside) % 2 == 1).any())
        self._inside ^= len(fresh) % 2 == 1
