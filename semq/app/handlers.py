"""Functions for received documents: their selection, the reading of bodies, the number of attempts.

An application's module creates a ``Handlers`` and decorates functions, which ``worker`` runs for ``semq worker``::

    handlers = Handlers()

    @handlers.on("trade", "order", "standard", retries=5, time_limit_s=30)
    async def order(document: Document, body: Any) -> None: ...

An empty domain, type or subtype matches all; the most specific match is used. A plain function runs in a thread.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

from semq.app.values import Document
from semq.errors import BadInput
from semq.umx_t.app_key import AppKey

Function: TypeAlias = Callable[[Document, Any], Awaitable[None] | None]
Reader: TypeAlias = Callable[[bytes], object]


class CannotRead(BadInput):
    """The body does not match its content type."""

    code = "SEMQ-1330"
    remedy = "Ask the sender for the document in the format of its content type, then remove this one."


class NoHandler(BadInput):
    """No function is registered for documents of this kind."""

    code = "SEMQ-1331"
    remedy = "Register a function for its domain, type and subtype, restart the worker and requeue the document."


class GiveUp(BadInput):
    """Raised by a handler: the document cannot be processed; it is parked without another attempt."""

    code = "SEMQ-1332"
    remedy = (
        "Read the handler's message (`semq failed show NAME`), then `semq failed requeue` or `semq failed remove` it."
    )


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered function with its limits; times in seconds."""

    function: Function
    retries: int
    time_limit_s: float
    backoff_s: float
    backoff_s_max: float


# content type | reader of its bodies; bodies of other types stay bytes
READERS: dict[str, Reader] = {
    "application/json": json.loads,
    "text/json": json.loads,
    "application/xml": ET.fromstring,
    "text/xml": ET.fromstring,
    "text/plain": lambda body: body.decode("utf-8"),
}


class Handlers:
    """The functions of one application."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str, str], Handler] = {}

    def on(
        self,
        domain: str = "",
        type: str = "",
        subtype: str = "",
        *,
        retries: int = 3,
        time_limit_s: float = 60.0,
        backoff_s: float = 1.0,
        backoff_s_max: float = 60.0,
    ) -> Callable[[Function], Function]:
        """Register a function for documents whose AppKey has these parts; an empty part matches all.

        ``retries`` is the number of attempts after the first, each after a pause that doubles from ``backoff_s`` to
        ``backoff_s_max``. Raises ValueError for a kind that already has a function, for negative numbers, and for a
        time limit of 0.
        """
        kind = (domain, type, subtype)
        if kind in self._functions:
            raise ValueError(f"a function for {'/'.join(kind)} is already registered")
        if min(retries, backoff_s, backoff_s_max) < 0 or time_limit_s <= 0:
            raise ValueError("retries and pauses must not be negative, and the time limit must be more than 0")

        def register(function: Function) -> Function:
            self._functions[kind] = Handler(function, retries, time_limit_s, backoff_s, backoff_s_max)
            return function

        return register

    @property
    def kinds(self) -> Mapping[tuple[str, str, str], Handler]:
        return self._functions

    def find(self, app_key: AppKey) -> Handler:
        """Return the most specific match; the domain counts more than the type, the type more than the subtype.

        Raises NoHandler.
        """
        parts = (app_key.domain, app_key.type, app_key.subtype)
        matches = [
            kind
            for kind in self._functions
            if all(pattern in ("", part) for pattern, part in zip(kind, parts, strict=True))
        ]
        if not matches:
            raise NoHandler(app_key=str(app_key))
        return self._functions[max(matches, key=lambda kind: [bool(part) for part in kind])]

    def read(self, document: Document) -> Any:
        """Read the body according to its content type; return bytes if there is no reader. Raises CannotRead."""
        content_type = document.content_type.partition(";")[0].strip().lower()
        structure = content_type.rpartition("+")[2]  # application/vnd.example.order+xml is XML
        reader = READERS.get(content_type) or READERS.get(f"application/{structure}")
        if reader is None:
            return document.payload
        try:
            return reader(document.payload)
        except Exception as error:  # a parser may raise anything
            raise CannotRead(content_type=content_type, cause=f"{type(error).__name__}: {error}") from error
