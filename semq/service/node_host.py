"""The resources that a process gives to a node (``Turn``, port, database, connections, the rule for idle stores), and
the ground, the parts that the node makes of them first.

``local_node.virtual`` has a subclass for a process in which the nodes of many institutions share these resources.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import cached_property
from typing import Generic

from msgspec import Struct

from semq.amqp.wire import Table
from semq.broker.server import AmqpServer
from semq.clock import Clock
from semq.config.settings import Settings
from semq.service.clock_check import ClockCheck
from semq.service.clockwork import Clockwork
from semq.service.database import NodeDatabase
from semq.service.engine_handle import E_co, EngineHandle
from semq.service.errors import PortTaken
from semq.store.postgres.connections import NeverRests, OwnReaders, Readers, Rest
from semq.store.postgres.store import PostgresStore
from semq.transport.listener import ConnectionAcceptor, ListenerConfig
from semq.transport.turn import Turn
from semq.umx_t.address import Address


class NodeHost:
    """The resources in the process of a single node."""

    poll_factor = 1.0  #: multiplies the intervals of jobs that search the database for work

    @cached_property
    def extract_turn(self) -> asyncio.Lock:
        """Return the lock held by the node that extracts its ledger."""
        return asyncio.Lock()

    def turn(self) -> Turn:
        """Return the ``Turn`` that flushes the node's output."""
        return Turn()

    def probe(self, host: str, port: int) -> None:
        """Raise PortTaken if the node cannot listen on the port."""
        try:
            with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                pass
        except OSError as error:
            raise PortTaken(host=host, port=port, fault=error.strerror or str(error)) from error

    def shared_port(self, settings: Settings) -> Callable[[AmqpServer, ListenerConfig], ConnectionAcceptor] | None:
        """Return the function that attaches a node's AMQP server to a shared port; None: the node has its own port."""
        return None

    def database(self, settings: Settings) -> NodeDatabase:
        return NodeDatabase(settings)

    def readers(self) -> Readers:
        return OwnReaders()

    def rest_rule(self) -> Rest:
        """Return the rule by which an idle store closes its connection for writing."""
        return NeverRests()


class Ground(Struct, Generic[E_co], frozen=True):
    """The first parts of a node, on which ``assemble`` of either kind of node builds the others."""

    settings: Settings
    address: Address
    clock: Clock
    clock_check: ClockCheck
    poll_factor: float  #: multiplies the intervals of jobs that search the database for work
    turn: Turn
    engine: EngineHandle[E_co]
    clockwork: Clockwork
    store: PostgresStore
    server: AmqpServer
    link_bytes_max: int  #: the largest body on a link between nodes
    login: Callable[[], Table]  #: returns the properties with which this node logs in at others
    cleanup: AsyncExitStack  #: ends parts, the last one first
