"""The applications of the demo: 56001 receives documents; 10008 listens to events and asks about missing ones."""

import asyncio
from pathlib import Path

from semq.app import AlreadyGone, Client, DocumentEvent
from semq.app.values import EPOCH
from semq.demo.tracker import DocumentTracker
from semq.errors import SemqError
from semq.umx_t.app_key import NO_KEY

ASK_S = 1.0  # between two rounds of questions
SILENCE_S = 2.0  # time without an event after which the node is asked about a document
ASK_MAX = 50  # documents in one round
STATE_OF = {"SS_SENT": "sent", "SS_ACK_FWD": "forwarded", "SS_ACK": "stored", "SS_ACK2": "delivered"}


async def receive(client: Client, tracker: DocumentTracker, folder: Path, ready: asyncio.Event) -> None:
    """Write each document that 56001 receives to a file, then acknowledge it; the client reconnects."""
    async with client.receive(prefetch=50) as documents:
        ready.set()
        async for delivered in documents:
            tracker.delivery(delivered)
            # The locator in the name makes a repeat after a crash write the same file.
            path = folder / f"{delivered.lk0}-{Path(delivered.app_key.key).name}"
            await asyncio.to_thread(path.write_bytes, delivered.payload)
            try:
                await delivered.ack()
            except AlreadyGone:
                continue  # the connection was lost: the document comes again, marked as redelivered
            tracker.was_read(delivered)


async def listen(client: Client, tracker: DocumentTracker, ready: asyncio.Event) -> None:
    """Take the events of 10008."""
    async with client.events() as events:
        ready.set()
        async for event in events:
            tracker.event(event)


async def ask(client: Client, tracker: DocumentTracker) -> None:
    """Ask 10008 about documents without recent events: a node that was killed may not have sent them."""
    while True:
        await asyncio.sleep(ASK_S)
        for document in tracker.silent(SILENCE_S)[:ASK_MAX]:
            try:
                answer = await client.look(document.lk0, timeout_s=10)
            except SemqError:
                break  # the node is unavailable: the next round asks again
            outcome = str(answer.get("outcome") or "")
            state = STATE_OF.get(str(answer.get("ss_status") or ""))
            if outcome:
                state = "delivered" if outcome == "DELIVERED" else "failed"
            if state is not None:
                tracker.event(DocumentEvent(state, document.lk0, "", NO_KEY, EPOCH, outcome=outcome))
