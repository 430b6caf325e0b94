"""Two tasks beside the scenes: the application of 56001 that takes documents, and 10008 hearing what becomes of its
own.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from semq.app import AlreadyGone, Client, Event
from semq.app.values import EPOCH
from semq.clock import Clock
from semq.demo.board import Board, Item
from semq.errors import SemqError
from semq.umx_t.app_key import NO_KEY

ASK_S = 1.0  # between two rounds of questions
SILENCE_S = 2.0  # after which a document is asked about
ASK_MAX = 50  # documents in one round
STATE_OF = {"SS_SENT": "sent", "SS_ACK_FWD": "forwarded", "SS_ACK": "stored", "SS_ACK2": "delivered"}

Show = Callable[[Sequence[Item]], None]


class Reader:
    """An application of 56001: takes each document, writes it to a file, then acknowledges it."""

    def __init__(self, client: Client, board: Board, folder: Path, received: Callable[[Item], None]) -> None:
        self._client = client
        self._board = board
        self._folder = folder
        self._received = received
        self.ready = asyncio.Event()

    async def read(self) -> None:
        """For ever; a restart of the node is bridged by the library."""
        self._folder.mkdir(exist_ok=True)
        async with self._client.receive(prefetch=50) as documents:
            self.ready.set()
            async for document in documents:
                item = self._board.given(document)
                # The name is the locator's: written twice after a crash, it is still one file.
                path = self._folder / f"{document.lk0}-{Path(document.app_key.key).name}"
                await asyncio.to_thread(path.write_bytes, document.payload)
                try:
                    await document.ack()
                except AlreadyGone:
                    continue  # it comes again, marked
                if item is not None:
                    self._received(item)


class Ears:
    """10008 hears its events, and asks about what it has heard nothing of for a while: a killed node tells nothing."""

    def __init__(self, client: Client, board: Board, clock: Clock, show: Show) -> None:
        self._client = client
        self._board = board
        self._clock = clock
        self._show = show
        self.ready = asyncio.Event()

    async def hear(self) -> None:
        """Take events, for ever."""
        async with self._client.events() as events:
            self.ready.set()
            async for event in events:
                self._told(event)

    async def ask(self) -> None:
        """Ask about silent documents, for ever."""
        while True:
            await asyncio.sleep(ASK_S)
            now = self._clock.monotonic()
            silent = [item for item in self._board.open() if item.lk0 and now - item.heard > SILENCE_S]
            for item in silent[:ASK_MAX]:
                try:
                    shown = await self._client.look(item.lk0, timeout_s=10)
                except SemqError:
                    break  # the node is away: the next round asks again
                self._look(item, shown)

    def _look(self, item: Item, shown: dict[str, object]) -> None:
        outcome, status = str(shown.get("outcome") or ""), str(shown.get("ss_status") or "")
        state = "failed" if outcome and outcome != "DELIVERED" else STATE_OF.get(status)
        if outcome == "DELIVERED":
            state = "delivered"
        if state is not None:
            self._told(Event(state, item.lk0, "", NO_KEY, EPOCH, outcome=outcome))

    def _told(self, event: Event) -> None:
        item = self._board.told(event, self._clock.monotonic())
        if item is not None:
            self._show([item])
