"""Limits of one connection, which bound everything a peer can declare or send.

Source: AMQP 0-9-1, sections 4.2.3, 4.9 and 4.10.
"""

from msgspec import Struct

from semq.amqp.errors import LocalMisuse
from semq.amqp.spec import FRAME_MIN_SIZE
from semq.amqp.wire import DEPTH_MAX, TABLE_DEPTH

MIB = 1 << 20
# A body_max for every size that a content header can declare. It costs no memory if stream_from is set.
ANY_SIZE = (1 << 64) - 1


class ConnectionLimits(Struct, frozen=True):
    """Limits of one connection. The first three are this side's offer in the negotiation.

    Raises ``LocalMisuse`` if a value is out of range.
    """

    frame_max: int = 131_072  # bytes including frame overhead; 0: no limit, for trusted peers only
    channel_max: int = 2047  # client: highest channel number; server: open channels; 0: no limit (65,535)
    heartbeat: int = 60  # seconds; 0: none
    initial_frame_max: int = 8192  # bytes, until frame-max is negotiated; a login may carry a long token
    body_max: int = 128 * MIB  # bytes of one message; a larger one is refused with 311 before it is buffered
    arriving_max: int = 256 * MIB  # bytes of all bodies being assembled in memory; more are refused with 506
    stream_from: int | None = None  # bodies of at least this many bytes are reported in chunks; None: all in one piece
    table_depth: int = TABLE_DEPTH  # nesting of tables and arrays
    handshake_s: float = 10.0  # from start() to an open connection
    close_s: float = 10.0  # from connection.close to close-ok

    def __post_init__(self) -> None:
        if (self.frame_max and self.frame_max < FRAME_MIN_SIZE) or self.frame_max >= 1 << 32:
            raise LocalMisuse(f"frame_max {self.frame_max} is neither 0 nor in {FRAME_MIN_SIZE}..2^32-1")
        if self.initial_frame_max < FRAME_MIN_SIZE:
            raise LocalMisuse(f"initial_frame_max {self.initial_frame_max} is below {FRAME_MIN_SIZE}")
        if not (0 <= self.channel_max < 1 << 16 and 0 <= self.heartbeat < 1 << 16):
            raise LocalMisuse("channel_max and heartbeat must be in 0..65535")
        if min(self.body_max, self.arriving_max, self.table_depth, self.handshake_s, self.close_s) < 0:
            raise LocalMisuse("a limit must not be negative")
        if self.arriving_max < self.one_piece_max or self.table_depth > DEPTH_MAX:
            raise LocalMisuse(
                f"arriving_max must be at least {self.one_piece_max} (one_piece_max), table_depth at most {DEPTH_MAX}"
            )

    @property
    def one_piece_max(self) -> int:
        """The largest body that is reported in one piece, in bytes."""
        return self.body_max if self.stream_from is None else min(self.body_max, self.stream_from - 1)
