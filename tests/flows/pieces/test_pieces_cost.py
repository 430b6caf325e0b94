"""Calls and queries that the code for pieces makes for small documents."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from semq.store.views.pieces import transfers, without_document
from tests.local_node.pieces.test_transfer import KeepingConsumer, confirming, counted, is_clean, local, published
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

DOCUMENTS = 40
ROOT = Path(__file__).parents[3]
PIECE_MODULES = tuple(
    f"{ROOT}/{place}" for place in ("semq/engine/receiver/pieces.py", "semq/umx_t/pieces.py", "local_node/pieces/")
)
# Calls for a small document, each of which makes one comparison. `prepare` is called for the events sent and delivered.
EXPECTED = {"prepare": 2, "is_needed": 1, "take_with_pieces": 1}


async def test_a_small_document_runs_only_comparisons_of_the_code_for_pieces(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    channel = await confirming(inprocess, a)
    consumer = await KeepingConsumer.on(inprocess, b)
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PIECE_MODULES):
            calls[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        for number in range(DOCUMENTS):
            assert await published(channel, "56001", b"%d" % number)
            delivered = await consumer.next()
            consumer.channel.ack(delivered.delivery_tag)
        await until(lambda: is_clean(a) and is_clean(b))
    finally:
        sys.setprofile(None)
    # Timers call functions, too, but not as often as there are documents.
    assert {name: count // DOCUMENTS for name, count in calls.items() if count >= DOCUMENTS} == EXPECTED


async def test_a_node_without_pieces_does_not_read_its_queues_for_them(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its start and periodically a node reads transfers, and pieces without a document."""
    hub = await inprocess.hub()
    b = await local(inprocess, "56001", hub.port)
    execute, queries = b.store.execute, set()

    async def record_query(query: Any, *arguments: Any) -> Any:
        queries.add(query)
        return await execute(query, *arguments)

    monkeypatch.setattr(b.store, "execute", record_query)
    a = await local(inprocess, "10008", hub.port)
    await linked(a, b)
    assert await published(await confirming(inprocess, a), "56001", b"small")
    await until(lambda: counted(b, "SELECT count(*) FROM tb_0030"))
    b.parts.transfers.begin()
    b.parts.remains.sweep()
    await until(lambda: not b.parts.remains.is_sweeping and {transfers, without_document} <= queries)
    assert {query.__name__ for query in queries if query.__module__ == transfers.__module__} == {
        "transfers", "without_document"
    }  # fmt: skip
