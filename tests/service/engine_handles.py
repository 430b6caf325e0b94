"""Handles of engines for the tests of parts that use one."""

from typing import TypeVar

from semq.service.engine_handle import CoreEngine, EngineHandle

E = TypeVar("E", bound=CoreEngine)


def handle_of(engine: E) -> EngineHandle[E]:
    handle = EngineHandle[E]()
    handle.current = engine
    return handle
