"""Events that are handled concurrently."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from semq.app import DocumentEvent
from semq.app.document_tasks import EventTasks
from semq.umx_t.app_key import AppKey
from tests.waiting import until


class AcknowledgedTags:
    """A channel that notes its acknowledgements."""

    def __init__(self) -> None:
        self.is_open = True
        self.acknowledged: list[int] = []

    def ack(self, tag: int) -> None:
        self.acknowledged.append(tag)


def event(name: str, channel: Any, tag: int) -> DocumentEvent:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return DocumentEvent("failed", "one", "1.56001", AppKey(), at, id=name, _channel=channel, _tag=tag)


async def test_an_event_that_is_delivered_again_meanwhile_is_handled_once_and_its_last_delivery_acknowledged() -> None:
    arriving: asyncio.Queue[DocumentEvent] = asyncio.Queue()
    handled: list[str] = []
    may_end = asyncio.Event()

    async def events() -> AsyncIterator[DocumentEvent]:
        while True:
            yield await arriving.get()

    async def handle(given: DocumentEvent) -> None:
        handled.append(given.id)
        await may_end.wait()

    running = asyncio.create_task(EventTasks(handle).run(events()))
    lost, present = AcknowledgedTags(), AcknowledgedTags()
    for tag, name in enumerate(("a", "b"), 1):
        arriving.put_nowait(event(name, lost, tag))
    await until(lambda: handled)
    lost.is_open = False
    for tag, name in enumerate(("a", "b", "c"), 1):
        arriving.put_nowait(event(name, present, tag))
    may_end.set()
    await until(lambda: len(present.acknowledged) == 3)
    assert handled == ["a", "b", "c"]
    assert present.acknowledged == [1, 2, 3]
    arriving.put_nowait(event("a", present, 4))  # after its end, it is handled like a new one
    await until(lambda: present.acknowledged[3:])
    assert handled[3:] == ["a"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
