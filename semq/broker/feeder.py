"""A large message that is leaving on a channel: read from the store chunk by chunk, as fast as the client takes it.

Between two chunks the other channels of the connection have their turn. While it lasts the channel takes and gives
nothing else, because contents and methods of one channel may not be mixed (AMQP 0-9-1, 4.2.6). Owned by ``channel``.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from semq.amqp.errors import InternalError, LocalMisuse
from semq.broker.bodies import StoredBody

if TYPE_CHECKING:
    from semq.broker.channel import Channel

log = logging.getLogger(__name__)


class Feeder:
    """One body on its way out; holds the body until the last octet is gone, or the channel is."""

    def __init__(self, channel: "Channel", body: StoredBody) -> None:
        self._channel = channel
        self._body = body
        self._index = 0
        self._is_reading = False
        self.on_end: Callable[[], None] = lambda: None
        body.retain()

    def go_on(self) -> None:
        """Read and send the next chunk, if there is room for it."""
        session = self._channel.session
        if self._is_reading or not session.is_writable or not self._channel.is_open:
            return
        self._is_reading = True
        self._body.read(self._index, self._read)

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
        try:
            channel.session.machine.send_chunk(channel.number, data)
        except LocalMisuse:
            return  # the peer has closed the channel; the news is on its way
        channel.session.wrote()
        self._index += 1
        if self._index == self._body.chunks:
            self._body.release()
            channel.fed(self.on_end)
        else:
            self.go_on()
