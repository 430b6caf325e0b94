"""The limit of pieces under way to one node, adjusted so that pieces do not queue.

Other documents wait behind queued pieces. So several pieces are under way only while receipts arrive about as fast as
for a single piece, as on a link with high latency. Without other documents at this node, pieces may queue.
"""

import asyncio
from collections.abc import Callable

UNDER_WAY_MAX = 4  # pieces: 1 MiB
LATE_FACTOR = 1.5  # multiple of the time of a single piece, above which a receipt is late
MEASURE_AGAIN = 64  # pieces, after which a single piece is measured again


class PieceWindow:
    """The pieces under way to one node."""

    def __init__(self, has_others: Callable[[], bool]) -> None:
        """``has_others``: whether this node has other documents at present."""
        self.size = float(UNDER_WAY_MAX)  #: pieces that may be under way while there are other documents
        self._has_others = has_others
        self.under_way = 0
        self._alone_s = 0.0  #: time of a single piece to its receipt; 0: to be measured
        self._measured = 0  #: receipts since the last decision to measure a single piece
        self._has_left = asyncio.Event()

    async def enter(self) -> bool:
        """Wait until one more piece may be sent; return whether this piece is the only one under way."""
        while self.under_way >= (int(self.size) if self._has_others() else UNDER_WAY_MAX):
            self._has_left.clear()
            await self._has_left.wait()
        self.under_way += 1
        return self.under_way == 1

    def leave(self, took_s: float = 0.0, *, was_alone: bool = False) -> None:
        """Note that a piece has ended; ``took_s``: seconds to its receipt, 0 without one."""
        self.under_way -= 1
        if took_s > 0:
            self._measure(took_s, was_alone)
        self._has_left.set()

    def _measure(self, took_s: float, was_alone: bool) -> None:
        """Adjust the size: it grows while receipts arrive as fast as for a single piece, and is halved if one is late.

        The first receipt, and every ``MEASURE_AGAIN``-th one, set the size to 1 until a single piece has been measured.
        """
        self._measured += 1
        if self._measured == MEASURE_AGAIN:
            self.size, self._alone_s, self._measured = 1.0, 0.0, 0
        elif not self._alone_s:
            self._alone_s = took_s if was_alone and self.size == 1 else 0.0
            self.size = 1.0
        elif took_s <= LATE_FACTOR * self._alone_s:
            self.size = min(self.size + 1 / self.size, UNDER_WAY_MAX)
        else:
            self.size = max(self.size / 2, 1.0)
