"""The applications of the demo: 56001 receives documents; 10008 listens to events and asks about missing ones."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from semq.app import AlreadyGone, Client, DocumentEvent
from semq.app.values import EPOCH
from semq.clock import Clock
from semq.demo.tracker import DocumentTracker, TrackedDocument
from semq.errors import SemqError
from semq.umx_t.app_key import NO_KEY

ASK_S = 1.0  # between two rounds of questions
SILENCE_S = 2.0  # time without an event after which the node is asked about a document
ASK_MAX = 50  # documents in one round
STATE_OF = {"SS_SENT": "sent", "SS_ACK_FWD": "forwarded", "SS_ACK": "stored", "SS_ACK2": "delivered"}
OnDocument = Callable[[TrackedDocument], None]


class DocumentReceiver:
    """The application of 56001: write each document to a file, then acknowledge it."""

    def __init__(self, client: Client, tracker: DocumentTracker, folder: Path, received: OnDocument) -> None:
        self._client = client
        self._tracker = tracker
        self._folder = folder
        self._received = received
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Receive until cancelled; the client reconnects after a restart of the node."""
        self._folder.mkdir(exist_ok=True)
        async with self._client.receive(prefetch=50) as documents:
            self.ready.set()
            async for delivered in documents:
                document = self._tracker.delivery(delivered)
                # The locator in the name makes a repeat after a crash write the same file.
                path = self._folder / f"{delivered.lk0}-{Path(delivered.app_key.key).name}"
                await asyncio.to_thread(path.write_bytes, delivered.payload)
                try:
                    await delivered.ack()
                except AlreadyGone:
                    continue  # the connection was lost: the document comes again, marked as redelivered
                if document is not None:
                    self._received(document)


class EventListener:
    """The application of 10008: take events, and ask about documents without recent events.

    A node that was killed may not have sent them.
    """

    def __init__(self, client: Client, tracker: DocumentTracker, clock: Clock, changed: OnDocument) -> None:
        self._client = client
        self._tracker = tracker
        self._clock = clock
        self._changed = changed
        self.ready = asyncio.Event()

    async def listen(self) -> None:
        """Take events until cancelled."""
        async with self._client.events() as events:
            self.ready.set()
            async for event in events:
                self._apply(event)

    async def ask(self) -> None:
        """Ask about silent documents until cancelled."""
        while True:
            await asyncio.sleep(ASK_S)
            now = self._clock.monotonic()
            silent = [one for one in self._tracker.unfinished() if one.lk0 and now - one.changed > SILENCE_S]
            for document in silent[:ASK_MAX]:
                try:
                    answer = await self._client.look(document.lk0, timeout_s=10)
                except SemqError:
                    break  # the node is unavailable: the next round asks again
                outcome = str(answer.get("outcome") or "")
                state = STATE_OF.get(str(answer.get("ss_status") or ""))
                if outcome:
                    state = "delivered" if outcome == "DELIVERED" else "failed"
                if state is not None:
                    self._apply(DocumentEvent(state, document.lk0, "", NO_KEY, EPOCH, outcome=outcome))

    def _apply(self, event: DocumentEvent) -> None:
        document = self._tracker.event(event, self._clock.monotonic())
        if document is not None:
            self._changed(document)
