"""A node as the operations of both kinds of nodes see it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # at run time, the web process needs the rows of tables that import this module, not these parts
    from semq.answers.status import Check, NodeStatus
    from semq.broker.server import AmqpServer
    from semq.clock import Clock
    from semq.config.settings import Settings
    from semq.engine.latency import Histogram, Stage
    from semq.engine.people.stuck import Surroundings
    from semq.engine.time.schedule import Schedule
    from semq.service.clockwork import Clockwork
    from semq.service.credentials.identity import NodeIdentity
    from semq.service.engine_handle import CoreEngine
    from semq.service.figure_count import FigureCount
    from semq.service.operations.census import SharedCensus
    from semq.service.operations.operation import BoundOperation
    from semq.service.operations.reload import Reloading
    from semq.store.postgres.store import PostgresStore
    from semq.umx_t.address import Address


class OperatedNode(Protocol):
    """A node, as seen by its operations."""

    settings: "Settings"
    clock: "Clock"
    address: "Address"
    store: "PostgresStore"
    server: "AmqpServer"
    clockwork: "Clockwork"
    operations: "dict[str, BoundOperation]"
    reloading: "Reloading"
    census: "SharedCensus"
    figures: "FigureCount"

    @property
    def engine(self) -> "CoreEngine":
        """The present engine."""

    async def status(self) -> "NodeStatus":
        """Return identity, state and figures."""

    async def checks(self) -> "list[Check]":
        """Return the health checks with their verdicts."""

    def surroundings(self) -> "Surroundings":
        """Return the facts, in addition to the rows, on which the causes of stuck documents depend."""

    def latency(self) -> "Mapping[Stage, Histogram]":
        """Return the engine's histograms of latency."""

    def schedule_of(self, side: str) -> "Schedule | None":
        """Return the schedule of inquiries about a side, ``outbound`` or ``inbound``; None if the node sends none."""

    def identity_in_use(self) -> "NodeIdentity":
        """Return the node's certificates and authorities. Raises NoIdentity, NoAuthority if it has none."""

    def apply_authorities(self) -> None:
        """Apply the present authorities to new connections; existing links stay."""

    async def apply_authorities_and_end_sessions(self) -> None:
        """Apply the present authorities to new connections, and end the sessions."""
