"""The socket of datagrams, and the sessions whose channels it carries.

Datagrams that name no channel, and datagrams that fail authentication, are counted and dropped. Datagrams are sent only
to addresses that the link has named or from which an authenticated datagram has come.
"""

import asyncio
import errno
import socket
import sys
from collections.abc import Callable
from typing import Any

import structlog

from semq.answers.status import DatagramCounts
from semq.clock import Clock
from semq.datagrams.channel import DatagramChannel
from semq.datagrams.cipher import read_head
from semq.datagrams.document import CarriedDocument
from semq.datagrams.errors import DatagramAddressUnusable
from semq.datagrams.session import DatagramSession, DatagramTimes, SessionPort, Transmission
from semq.umx_t.records import ChannelRecord

BUFFER_BYTES = 4 << 20
DATAGRAM_BYTES_MAX = 65_536
PER_TURN = 64  # datagrams read before the event loop serves other sockets
# Options of Linux: send with "don't fragment", and ignore the kernel's estimate of the path's size.
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PROBE = 10, 23, 3
log = structlog.get_logger("semq.datagrams")


class DatagramPort(SessionPort):
    """One UDP socket."""

    def __init__(self, clock: Clock, times: DatagramTimes) -> None:
        self._clock = clock
        self._times = times
        self._socket: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._channels: dict[bytes, tuple[DatagramChannel, DatagramSession]] = {}
        self._sessions: dict[DatagramSession, None] = {}
        self.strangers = 0  #: datagrams that name no channel

    # --- life
    def open(self, family: int, address: Any) -> None:
        """Bind the socket and begin to read. Raises DatagramAddressUnusable."""
        udp_socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            udp_socket.setblocking(False)
            self._set_options(udp_socket)
            udp_socket.bind(address)
        except OSError as error:
            udp_socket.close()
            raise DatagramAddressUnusable(host=address[0], port=address[1], fault=str(error)) from error
        self._socket = udp_socket
        self._loop.add_reader(udp_socket, self._read)
        self._tick()

    @staticmethod
    def _set_options(udp_socket: socket.socket) -> None:
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            udp_socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        if udp_socket.family == socket.AF_INET6:
            udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if sys.platform == "linux":
                udp_socket.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PROBE)
        if sys.platform == "linux":
            udp_socket.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PROBE)

    def close(self) -> None:
        """Close the socket."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    @property
    def is_open(self) -> bool:
        """Whether the socket is bound."""
        return self._socket is not None

    @property
    def family(self) -> int:
        """The address family of the socket; 0 if it is closed."""
        return int(self._socket.family) if self._socket is not None else 0

    @property
    def number(self) -> int:
        """The number of the port; 0 if the socket is closed."""
        return int(self._socket.getsockname()[1]) if self._socket is not None else 0

    # --- sessions
    def begin(
        self,
        counts: DatagramCounts,
        send_record: Callable[[ChannelRecord], None],
        on_document: Callable[[CarriedDocument], bool],
    ) -> DatagramSession:
        """Return the session of a new link; ``end`` ends it. The callbacks are those of ``DatagramSession``."""
        session = DatagramSession(self, self._times, counts, send_record, on_document, self._clock.monotonic)
        self._sessions[session] = None
        return session

    def end(self, session: DatagramSession) -> None:
        """End a session: its datagrams are ignored from now on."""
        session.close()
        self._sessions.pop(session, None)

    def register(self, channel: DatagramChannel, session: DatagramSession) -> None:
        # A peer chooses the id of its channel: it must not be able to take over the channel of another peer.
        self._channels.setdefault(channel.id, (channel, session))

    def forget(self, channel: DatagramChannel) -> None:
        registered, _ = self._channels.get(channel.id, (None, None))
        if registered is channel:
            del self._channels[channel.id]

    # --- the socket
    def transmit(self, datagram: bytes, address: Any) -> Transmission:
        if self._socket is None:
            return Transmission.FULL
        try:
            self._socket.sendto(datagram, address)
        except OSError as error:
            return Transmission.TOO_LARGE if error.errno == errno.EMSGSIZE else Transmission.FULL
        return Transmission.SENT

    def _read(self) -> None:
        for _ in range(PER_TURN):
            if self._socket is None:
                return
            try:
                datagram, source = self._socket.recvfrom(DATAGRAM_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:  # an earlier datagram could not be delivered
                continue
            self._dispatch(datagram, source)

    def _dispatch(self, datagram: bytes, source: object) -> None:
        head = read_head(datagram)
        registered = self._channels.get(head.channel_id) if head is not None else None
        if head is None or registered is None:
            self.strangers += 1
            return
        channel, session = registered
        session.process_datagram(channel, head.sequence, datagram, source)

    def _tick(self) -> None:
        try:
            for session in list(self._sessions):
                session.tick()
        except Exception:  # a defect must not stop the probes
            log.exception("datagrams_failed")
        self._timer = self._loop.call_later(min(self._times.path.answer_s, self._times.report_s), self._tick)
