"""The intake: a queue for each speaker, where received frames wait until they are passed to the engine.

A speaker is, for instance, a session (at the listening end of links), the source of a packet (at the dialling end), or
a queue (on the carrier of a hub). In each turn of the event loop the intake passes on a bounded number of frames and
bytes, speaker by speaker, so that no speaker delays the others. While too much work of all, or too many packets of a
speaker, are not committed, it passes on no more. A node has an intake for each of its links, and one store for all: the
uncommitted work of one speaker delays everybody. The callers limit the bytes that wait for a speaker.
"""

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from semq.store.work import Work, after_commit
from semq.transport.turn import Turn

Speaker = TypeVar("Speaker", bound=Hashable)
Frame = TypeVar("Frame")

FRAMES_PER_TURN = 256
BYTES_PER_TURN = 256 * 1024
FRAMES_UNDER_WAY_MAX = 4096  # frames passed on whose work is not committed
BYTES_UNDER_WAY_MAX = 16 << 20
# As above, for one speaker. A packet counts by its bytes, because the store has work with each of its records.
PACKET_BYTES_UNDER_WAY_MAX = 128 * 1024
FRAME_OVERHEAD_BYTES = 200  # counted for a frame in addition to header and body


class Intake(Generic[Speaker, Frame]):
    """Queues of received frames, one for each speaker."""

    def __init__(
        self,
        process: Callable[[Speaker, list[Frame]], None],
        post: Callable[[Work, bool], None],
        loop_turn: Turn,
    ) -> None:
        """``process`` passes frames of one speaker to the engine. ``post`` posts work to the store; the second argument
        says whether the work may wait for a later commit."""
        self._process = process
        self._post = post
        self._loop_turn = loop_turn
        #: frame, its size, and whether it is a packet; the first speaker has the next turn
        self._waiting: dict[Speaker, deque[tuple[Frame, int, bool]]] = {}
        self._bytes: dict[Speaker, int] = {}
        self._paused: set[Speaker] = set()
        self._packet_bytes_under_way: dict[Speaker, int] = {}
        self._is_scheduled = False
        self.waiting_bytes = 0  #: of all speakers
        self.frames_under_way = 0
        self.bytes_under_way = 0

    def waiting_bytes_of(self, speaker: Speaker) -> int:
        return self._bytes.get(speaker, 0)

    def put(self, speaker: Speaker, frame: Frame, size: int, *, is_packet: bool = False) -> None:
        size += FRAME_OVERHEAD_BYTES
        self._waiting.setdefault(speaker, deque()).append((frame, size, is_packet))
        self._bytes[speaker] = self._bytes.get(speaker, 0) + size
        self.waiting_bytes += size
        self._schedule()

    def finish(self, speaker: Speaker) -> list[Frame]:
        """Pass at most one turn's frames of a departed speaker to the engine; return the remaining frames."""
        if speaker in self._waiting and self._packet_bytes_under_way.get(speaker, 0) < PACKET_BYTES_UNDER_WAY_MAX:
            self._pass_on(speaker, FRAMES_PER_TURN, BYTES_PER_TURN)
        frames = self._waiting.pop(speaker, deque())
        self.waiting_bytes -= self._bytes.pop(speaker, 0)
        return [frame for frame, *_ in frames]

    def forget(self) -> list[Frame]:
        """Remove and return all waiting frames."""
        frames = [frame for queue in self._waiting.values() for frame, *_ in queue]
        self._waiting.clear()
        self._bytes.clear()
        self._paused.clear()
        self.waiting_bytes = 0
        return frames

    def pause(self, speaker: Speaker) -> None:
        """Pass on no frames of a speaker until ``resume_all``."""
        self._paused.add(speaker)

    def resume_all(self) -> None:
        self._paused.clear()
        self._schedule()

    def _schedule(self) -> None:
        may_turn = any(not self._waits(speaker) for speaker in self._waiting)
        if not self._is_scheduled and may_turn and not self._is_full:
            self._is_scheduled = True
            self._loop_turn.before_flush(self.pass_on_turn)

    @property
    def _is_full(self) -> bool:
        return self.frames_under_way >= FRAMES_UNDER_WAY_MAX or self.bytes_under_way >= BYTES_UNDER_WAY_MAX

    def _waits(self, speaker: Speaker) -> bool:
        """Whether a speaker is paused, or too much work of its packets is not committed."""
        return speaker in self._paused or self._packet_bytes_under_way.get(speaker, 0) >= PACKET_BYTES_UNDER_WAY_MAX

    def pass_on_turn(self) -> None:
        self._is_scheduled = True
        frames_left, bytes_left = FRAMES_PER_TURN, BYTES_PER_TURN
        share = max(FRAMES_PER_TURN // max(len(self._waiting), 1), 16)
        try:
            for speaker in list(self._waiting):
                if frames_left <= 0 or bytes_left <= 0 or self._is_full:
                    break
                if self._waits(speaker):
                    continue
                count, size = self._pass_on(speaker, min(share, frames_left), bytes_left * share // FRAMES_PER_TURN)
                frames_left, bytes_left = frames_left - count, bytes_left - size
        finally:  # one speaker's failure must not stop the intake
            self._loop_turn.in_next(self._schedule_again)

    def _schedule_again(self) -> None:
        self._is_scheduled = False
        self._schedule()

    def _pass_on(self, speaker: Speaker, frames_max: int, bytes_max: int) -> tuple[int, int]:
        """Pass on at least one frame of a speaker, whose next turn then comes last; return number and size."""
        queue = self._waiting.pop(speaker)
        batch: list[Frame] = []
        size = packet_bytes = 0
        room = PACKET_BYTES_UNDER_WAY_MAX - self._packet_bytes_under_way.get(speaker, 0)
        while queue and len(batch) < frames_max and packet_bytes < room:
            frame, length, is_packet = queue[0]
            if batch and size + length > bytes_max:
                break
            queue.popleft()
            batch.append(frame)
            size += length
            packet_bytes += length * is_packet
        self.waiting_bytes -= size
        if queue:
            self._waiting[speaker] = queue
            self._bytes[speaker] -= size
        else:
            del self._bytes[speaker]
        self.frames_under_way += len(batch)
        self.bytes_under_way += size
        if packet_bytes:
            self._packet_bytes_under_way[speaker] = self._packet_bytes_under_way.get(speaker, 0) + packet_bytes
        try:
            self._process(speaker, batch)
        finally:
            # At the limit the settlement must not wait for a later commit: the next turn waits for the settlement.
            settle = partial(self._settle, speaker, len(batch), size, packet_bytes)
            settlement = after_commit(settle)
            settlement.on_failure = lambda error: settle()
            self._post(settlement, not (self._is_full or self._waits(speaker)))
        return len(batch), size

    def _settle(self, speaker: Speaker, frames: int, size: int, packet_bytes: int) -> None:
        """Note that the work of ``frames`` frames is committed or has failed."""
        self.frames_under_way -= frames
        self.bytes_under_way -= size
        if packet_bytes:
            self._packet_bytes_under_way[speaker] -= packet_bytes
            if not self._packet_bytes_under_way[speaker]:
                del self._packet_bytes_under_way[speaker]
        self._schedule()
