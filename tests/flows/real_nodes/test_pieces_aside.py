"""Small documents do not pay for documents in pieces: what they execute of their code, counted."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from tests.local_node.pieces.test_transfer import KeepingConsumer, confirming, is_clean, local, published
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

DOCUMENTS = 40
ROOT = Path(__file__).parents[3]
OF_PIECES = tuple(
    f"{ROOT}/{place}" for place in ("semq/engine/receiver/pieces.py", "semq/umx_t/pieces.py", "local_node/pieces/")
)
# Function | its calls for a document, one comparison each: for the events sent and delivered, a delivery, an ack
EXPECTED = {"prepare": 2, "is_needed": 1, "with_pieces": 1}


async def test_a_small_document_runs_only_comparisons_of_the_code_for_pieces(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    a, b = await local(inprocess, "10008", hub.port), await local(inprocess, "56001", hub.port)
    await linked(a, b)
    channel = await confirming(inprocess, a)
    consumer = await KeepingConsumer.on(inprocess, b)
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OF_PIECES):
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
    by_documents = {name: count for name, count in calls.items() if count >= DOCUMENTS // 2}  # the others by the clock
    assert by_documents == {name: times * DOCUMENTS for name, times in EXPECTED.items()}
