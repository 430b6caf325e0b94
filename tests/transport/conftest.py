"""Everything about sockets is tried on both event loops: asyncio's own and the one that nodes run on."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loops of each test."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
