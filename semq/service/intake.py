"""The intake: received frames wait here, by speaker, until they are decoded and passed to the engine.

The intake keeps one speaker from delaying the others and from filling the memory. Speakers take turns; a turn of the
event loop takes a bounded number of pieces, and none while too many earlier ones are not committed. The node limits the
waiting frames of one speaker: the hub stops reading from a session (its publishes are not settled); a local node drops
frames beyond ``bytes_max`` of one partner, because one session carries all partners.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from semq.store.work import Work, after_commit
from semq.transport.turn import Turn

S = TypeVar("S", bound=Hashable)
P = TypeVar("P")

PIECES_PER_TURN = 256
BYTES_PER_TURN = 256 * 1024
PIECES_UNDER_WAY = 4096  # passed to the engine and not committed
BYTES_UNDER_WAY = 16 << 20
PIECE_BYTES = 200  # bytes counted for a piece besides its body


class Intake(Generic[S, P]):
    """The queues of one node's links. ``process`` takes pieces of one speaker, in order; ``post`` takes work, and
    whether that may be done later."""

    def __init__(
        self,
        process: Callable[[S, list[P]], None],
        post: Callable[[Work, bool], None],
        turn: Turn,
    ) -> None:
        self._process = process
        self._post = post
        self._loop_turn = turn
        self._waiting: dict[S, deque[tuple[P, int]]] = {}  #: in the order of their next turns
        self._bytes: dict[S, int] = {}
        self._held: set[S] = set()
        self._is_called = False
        self.waiting_bytes = 0  #: total size of all waiting pieces
        self.pieces_under_way = 0
        self.bytes_under_way = 0

    def waiting(self, speaker: S) -> int:
        """Return the waiting bytes of a speaker."""
        return self._bytes.get(speaker, 0)

    def put(self, speaker: S, piece: P, size: int) -> None:
        """Append a piece to the queue of its speaker."""
        size += PIECE_BYTES
        self._waiting.setdefault(speaker, deque()).append((piece, size))
        self._bytes[speaker] = self._bytes.get(speaker, 0) + size
        self.waiting_bytes += size
        self._call()

    def finish(self, speaker: S) -> list[P]:
        """Pass the pieces of one turn of a departed speaker to the engine, and return the rest."""
        if speaker in self._waiting:
            self._take(speaker, PIECES_PER_TURN, BYTES_PER_TURN)
        left = self._waiting.pop(speaker, deque())
        self.waiting_bytes -= self._bytes.pop(speaker, 0)
        return [piece for piece, _ in left]

    def forget(self) -> list[P]:
        """Remove and return all waiting pieces, because the sessions have ended."""
        left = [piece for queue in self._waiting.values() for piece, _ in queue]
        self._waiting.clear()
        self._bytes.clear()
        self._held.clear()
        self.waiting_bytes = 0
        return left

    def hold(self, speaker: S) -> None:
        """Take no more pieces of a speaker until ``release``."""
        self._held.add(speaker)

    def release(self) -> None:
        """Take pieces of all speakers again."""
        self._held.clear()
        self._call()

    def _call(self) -> None:
        may_turn = any(speaker not in self._held for speaker in self._waiting)
        if not self._is_called and may_turn and not self._is_full:
            self._is_called = True
            self._loop_turn.before_flush(self.turn)

    @property
    def _is_full(self) -> bool:
        return self.pieces_under_way >= PIECES_UNDER_WAY or self.bytes_under_way >= BYTES_UNDER_WAY

    def turn(self) -> None:
        """Pass the pieces of one turn of the event loop to the engine; the rest waits for the next turn."""
        self._is_called = True
        pieces, bytes_left = PIECES_PER_TURN, BYTES_PER_TURN
        share = max(PIECES_PER_TURN // max(len(self._waiting), 1), 16)
        for speaker in list(self._waiting):
            if pieces <= 0 or bytes_left <= 0 or self._is_full:
                break
            if speaker in self._held:
                continue
            took, size = self._take(speaker, min(share, pieces), bytes_left * share // PIECES_PER_TURN)
            pieces, bytes_left = pieces - took, bytes_left - size
        self._loop_turn.in_next(self._call_again)

    def _call_again(self) -> None:
        self._is_called = False
        self._call()

    def _take(self, speaker: S, pieces_max: int, bytes_max: int) -> tuple[int, int]:
        """Pass on one share of a speaker, at least one piece; the speaker then waits behind the others."""
        queue = self._waiting.pop(speaker)
        batch: list[P] = []
        size = 0
        while queue and len(batch) < pieces_max and (not batch or size + queue[0][1] <= bytes_max):
            piece, length = queue.popleft()
            batch.append(piece)
            size += length
        self.waiting_bytes -= size
        if queue:
            self._waiting[speaker] = queue
            self._bytes[speaker] -= size
        else:
            del self._bytes[speaker]
        self.pieces_under_way += len(batch)
        self.bytes_under_way += size
        try:
            self._process(speaker, batch)
        finally:
            # Only at the limit does the next turn wait for the commit.
            ended = after_commit(lambda: self.worked_off(len(batch), size))
            ended.on_failure = lambda error: self.worked_off(len(batch), size)
            self._post(ended, not self._is_full)
        return len(batch), size

    def worked_off(self, pieces: int, size: int) -> None:
        """Continue after the store has committed, or failed, all work of earlier pieces."""
        self.pieces_under_way -= pieces
        self.bytes_under_way -= size
        self._call()
