"""The wire format of server-sent events, and the end of a stream."""

import asyncio
from collections.abc import AsyncIterator

from semq.web.transport.event_stream import event, with_heartbeat
from tests.waiting import until


def test_no_text_ends_an_event_or_begins_another() -> None:
    text = event("a\nevent: b", "1\r\n2\r3\n\n4", "7\n\ndata: x\0")
    assert text == "id: 7data: x\nevent: aevent: b\ndata: 1\ndata: 2\ndata: 3\ndata: \ndata: 4\n\n"


async def test_a_stream_whose_client_disconnects_ends_its_source() -> None:
    ended: list[str] = []

    async def events() -> AsyncIterator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            ended.append("source")

    stream = with_heartbeat(events(), lambda: ended.append("stream"))
    assert [await anext(stream), await anext(stream)] == ["retry: 2000\n\n", "one"]
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: len(ended) == 2)
    assert ended == ["stream", "source"]
