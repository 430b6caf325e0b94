"""An application for ``semq worker``, in which a document determines what its handler does."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from semq.app import Document, GiveUp, Handlers

handlers = Handlers()
RECORD = Path(os.environ.get("HANDLED", os.devnull))
_tries: dict[str, int] = {}


def note(line: str) -> None:
    """Write one line of the record."""
    with RECORD.open("a") as record:
        record.write(line + "\n")


@handlers.on("work", "order", retries=2, backoff_s=0.01, time_limit_s=30)
async def order(document: Document, body: Any) -> None:
    """Fail as often as the body states, then succeed."""
    _tries[document.lk0] = _tries.get(document.lk0, 0) + 1
    if _tries[document.lk0] <= body["failures"]:
        raise ValueError(f"bad total in {document.app_key.key}")
    note(f"done {document.app_key.key} {_tries[document.lk0]}")


@handlers.on("work", "slow", retries=0, time_limit_s=0.2)
def slow(document: Document, body: Any) -> None:
    """Handle a document in a thread; with the body ``never``, exceed the time limit."""
    if body == b"never":
        time.sleep(1)
    note(f"done {document.app_key.key}")


@handlers.on("work", "hopeless", retries=50)
async def hopeless(document: Document, body: Any) -> None:
    """Give up the document at the first attempt."""
    raise GiveUp("the customer is gone")


@handlers.on("work", "held", time_limit_s=120)
async def held(document: Document, body: Any) -> None:
    """End when the file ``go`` exists."""
    note(f"holds {document.app_key.key}")
    while not (RECORD.parent / "go").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.02)
    note(f"done {document.app_key.key}")
