"""The resources that a process gives to a node: turn, port, database, connections for reading, pauses of the writer.

``NodeHost`` is for a process with a single node, which does not share them. ``local_node.virtual`` has a subclass for a
process in which the nodes of many institutions share them.
"""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from semq.config.settings import Settings
from semq.service.database import NodeDatabase
from semq.service.errors import PortTaken
from semq.store.postgres.connections import NeverRests, OwnReaders, Readers, Rest
from semq.transport.listener import ConnectionAcceptor, ListenerConfig
from semq.transport.turn import Turn

if TYPE_CHECKING:
    from semq.broker.server import AmqpServer


class NodeHost:
    """The process of a single node."""

    poll_factor = 1.0  #: multiplies the intervals of jobs that search the database for work

    def turn(self) -> Turn:
        """Return the turn of the node's links and brokers."""
        return Turn()

    def probe(self, host: str, port: int) -> None:
        """Raise PortTaken if the port is in use, before a database is created or migrated."""
        try:
            with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                pass
        except OSError as error:
            raise PortTaken(host=host, port=port, fault=error.strerror or str(error)) from error

    def shared_port(self, settings: Settings) -> "Callable[[AmqpServer, ListenerConfig], ConnectionAcceptor] | None":
        """Return the function that attaches a node's AMQP server to a shared port; None for a port of its own."""
        return None

    def database(self, settings: Settings) -> NodeDatabase:
        """Return the database of a node."""
        return NodeDatabase(settings)

    def readers(self) -> Readers:
        """Return the connections of a store for reading."""
        return OwnReaders()

    def rest(self) -> Rest:
        """Return the rule that decides when an idle store closes its connection for writing."""
        return NeverRests()
