"""The ground of a node: its first parts, on which ``assemble`` of either kind of node builds the others."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Generic

from msgspec import Struct

from semq.broker.server import AmqpServer
from semq.clock import Clock
from semq.config.settings import Settings
from semq.service.clock_check import ClockCheck
from semq.service.clockwork import Clockwork
from semq.service.engine_handle import E_co, EngineHandle
from semq.store.postgres.store import PostgresStore
from semq.transport.turn import Turn
from semq.umx_t.address import Address


class Ground(Struct, Generic[E_co], frozen=True):
    """Parts that exist before all others. The engine follows the others, because it uses them."""

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
    login: Callable[[], Mapping[str, Any]]  #: returns the properties with which this node logs in at others
    cleanup: AsyncExitStack  #: ends parts, the last one first
