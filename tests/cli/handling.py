"""An application for ``semq worker``: each document states what its handler does."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from semq.app import Document, GiveUp, Handlers

handlers = Handlers()
BOOK = Path(os.environ.get("HANDLED", os.devnull))
_tries: dict[str, int] = {}


def note(line: str) -> None:
    """Write one line of the record."""
    with BOOK.open("a") as book:
        book.write(line + "\n")


@handlers.on("work", "order", retries=2, backoff_s=0.01, time_limit_s=30)
async def order(document: Document, body: Any) -> None:
    """Fail as often as the document states."""
    _tries[document.lk0] = _tries.get(document.lk0, 0) + 1
    if _tries[document.lk0] <= body["failures"]:
        raise ValueError(f"bad total in {document.app_key.key}")
    note(f"done {document.app_key.key} {_tries[document.lk0]}")


@handlers.on("work", "slow", retries=0, time_limit_s=0.2)
def slow(document: Document, body: Any) -> None:
    """Handle a document in a thread."""
    if body == b"never":
        time.sleep(1)
    note(f"done {document.app_key.key}")


@handlers.on("work", "hopeless", retries=50)
async def hopeless(document: Document, body: Any) -> None:
    """Give up a document."""
    raise GiveUp("the customer is gone")


@handlers.on("work", "held", time_limit_s=120)
async def held(document: Document, body: Any) -> None:
    """End when the test allows it."""
    note(f"holds {document.app_key.key}")
    while not (BOOK.parent / "go").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.02)
    note(f"done {document.app_key.key}")
