"""A large message that is leaving on a channel: read from the store chunk by chunk, as fast as the client takes it.

While one chunk is on its way out the next is being read: two are in memory at most.
Between two chunks the other channels of the connection have their turn. While it lasts the channel takes and gives
nothing else, because contents and methods of one channel may not be mixed (AMQP 0-9-1, 4.2.6). Owned by ``channel``.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from semq.amqp.errors import InternalError, LocalMisuse
from semq.broker.queues.bodies import StoredBody

if TYPE_CHECKING:
    from semq.broker.channel.channel import Channel

log = logging.getLogger(__name__)


class Feeder:
    """One body on its way out; holds the body until the last octet is gone, or the channel is."""

    def __init__(self, channel: "Channel", body: StoredBody) -> None:
        self._channel = channel
        self._body = body
        self._asked = 0  # chunks that were asked of the store
        self._sent = 0
        self._is_reading = False
        self._next: bytes | None = None
        self.on_end: Callable[[], None] = lambda: None
        body.retain()

    def go_on(self) -> None:
        """Send what is there, if there is room for it, and read on."""
        channel = self._channel
        if not (channel.session.is_writable and channel.is_open):
            return
        data, self._next = self._next, None
        if self._asked < self._body.chunks and not self._is_reading:
            self._is_reading = True
            self._asked += 1
            self._body.read(self._asked - 1, self._read)
        if data is not None:
            self._send(data)

    def cancel(self) -> None:
        """The channel is gone."""
        self._body.release()

    def _read(self, data: bytes | None, error: BaseException | None) -> None:
        self._is_reading = False
        channel = self._channel
        if not channel.is_open or channel.feeder is not self:
            return
        if data is None:
            log.error("a body could not be read from the store: %s", error)
            channel.session.close(InternalError("a message could not be read from the store"))
            return
        self._next = data
        self.go_on()

    def _send(self, data: bytes) -> None:
        channel = self._channel
        try:
            channel.session.machine.send_chunk(channel.number, data)
        except LocalMisuse:
            return  # the peer has closed the channel; the news is on its way
        session = channel.session
        session.wrote()
        del session.feeding[channel]  # the other channels come first next time
        session.feeding[channel] = None
        self._sent += 1
        if self._sent == self._body.chunks:
            self._body.release()
            channel.fed(self.on_end)
