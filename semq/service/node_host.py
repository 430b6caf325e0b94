"""What a process gives to a node: its turn, its port, its database and how its store rests.

``NodeHost`` is for a process with one node: everything is the node's own. ``local_node.virtual`` has the one that
shares these between the nodes of many institutions. A node is composed the same way with both.
"""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from semq.config.settings import Settings
from semq.service.database import NodeDatabase
from semq.service.errors import PortTaken
from semq.store.postgres.connections import NeverRests, OwnReaders, Readers, Rest
from semq.transport.listener import ListenerConfig, Listening
from semq.transport.turn import Turn

if TYPE_CHECKING:
    from semq.broker.server import AmqpServer


class NodeHost:
    """The process of a single node."""

    poll_factor = 1.0  #: by which the intervals of jobs are longer that look for work in the database

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

    def door_of(self, settings: Settings) -> "Callable[[AmqpServer, ListenerConfig], Listening] | None":
        """Return what makes the listener of a node's AMQP server; None: it has a port of its own."""
        return None

    def database(self, settings: Settings) -> NodeDatabase:
        """Return the database of a node."""
        return NodeDatabase(settings)

    def readers(self) -> Readers:
        """Return the connections of a store for reading."""
        return OwnReaders()

    def rest(self) -> Rest:
        """Return when a store closes its connection for writing."""
        return NeverRests()
