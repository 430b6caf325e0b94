"""The plot of the demo: online, away, back again; then the queues are looked into and everything is counted.

``main`` is the process; ``Play`` holds what the scenes share. Two tasks run beside the scenes: the application of
56001, which takes documents and writes them to files, and the ears of 10008, which hear its events and ask where an
event may have been missed.
"""

import asyncio
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from semq.app import Client, RefusedByNode
from semq.clock import SystemClock
from semq.demo.actor import Actor
from semq.demo.audience import print_reckoning, print_verdict, seat, stamp
from semq.demo.board import Board, Item
from semq.demo.errors import TookTooLong
from semq.demo.listening import Ears, Reader
from semq.demo.options import Options, read_options
from semq.demo.papers import read_folder
from semq.demo.passports import give
from semq.demo.programme import hints, introduction
from semq.demo.reckoning import Reckoning, reckon
from semq.demo.stage import HUB, RECEIVER, REPORTS, SENDER, build
from semq.demo.verdict import Verdict, count
from semq.errors import BadInput, SemqError

EXIT_GOOD, EXIT_BAD, EXIT_USAGE, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 0, 1, 2, 69, 130
QUEUES = ("tb_0031", "tb_0030")
POLL_S = 0.1
MANY = 100  # documents from which on several are sent at once
AT_ONCE = 16
PACE_S = 0.12  # between two documents on a terminal, so that people can follow


def main(argv: list[str] | None = None) -> int:
    """Run the demo; its exit status."""
    options = read_options(argv)
    console = Console(stderr=options.json, highlight=False)
    try:
        verdict, reckoning = asyncio.run(_run(options, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; the nodes have been stopped")
        return EXIT_INTERRUPTED
    except SemqError as error:
        print(f"demo: {error.advice()}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, BadInput) else EXIT_UNAVAILABLE
    if options.json:
        told = verdict.as_json()
        if reckoning is not None:
            told |= {"ok": verdict.is_good and reckoning.is_good, "reconcile": reckoning.as_json()}
        print(json.dumps(told), flush=True)
    return EXIT_GOOD if verdict.is_good and (reckoning is None or reckoning.is_good) else EXIT_BAD


async def _run(options: Options, console: Console) -> tuple[Verdict, Reckoning | None]:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started us with SIGINT ignored
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    read_folder(options.documents, options.count)  # before anything is started
    folder = options.data_dir or Path(tempfile.mkdtemp(prefix="semq-demo-"))
    try:
        async with AsyncExitStack() as exits:
            return await Play(options, console, folder.resolve(), exits).perform()
    finally:
        if not options.keep:
            _clear(folder)


def _clear(folder: Path) -> None:
    """Remove all but the report, whose path was told."""
    for one in folder.iterdir():
        if one.name != REPORTS:
            shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink()
    if not (folder / REPORTS).exists():
        folder.rmdir()


class Play:
    """One performance."""

    def __init__(self, options: Options, console: Console, folder: Path, exits: AsyncExitStack) -> None:
        self._options = options
        self._console = console
        self._folder = folder
        self._exits = exits
        self._clock = SystemClock()
        self._board = Board()
        self._places = build(folder, self._clock.wall().hour, secure=options.secure)
        introduction(console, options, folder)
        self._audience = seat(console, self._board)
        exits.callback(self._audience.close)
        self._actors = {name: Actor(place, self._audience.say) for name, place in self._places.items()}
        self._clients: dict[str, Client] = {}

    async def perform(self) -> tuple[Verdict, Reckoning | None]:
        """The scenes in their order."""
        await self._raise_curtain()
        await self._send_online()
        await self._send_while_away()
        await self._come_back()
        verdict = await self._look_into_the_queues()
        self._audience.close()
        print_verdict(self._console, verdict)
        reckoning = await self._reckon() if self._options.reconcile else None
        hints(self._console, self._options, self._places)
        if self._options.stay:
            await self._stay()
        return verdict, reckoning

    # The scenes.

    async def _raise_curtain(self) -> None:
        self._audience.say("starting the hub and the institutions 10008 and 56001, each with a database of its own")
        for actor in self._actors.values():
            self._exits.push_async_callback(actor.clear)
        names = list(self._actors)
        if self._options.secure:
            names.remove(HUB)
            await self._start(HUB)
            await self._enrol(names)
        await self._start(*names)
        for name, actor in self._actors.items():
            place = self._places[name]
            self._audience.say(f"{name:5} is process {actor.pid}, port {place.port}, log {place.log}")
        for name in self._places:
            self._client(name)
        await self._wait("10008 to see 56001 online", self._is_receiver_online)
        reader = Reader(self._clients[RECEIVER], self._board, self._folder / "received", self._audience.received)
        ears = Ears(self._clients[SENDER], self._board, self._clock, self._audience.show)
        for listening in (reader.read(), ears.hear(), ears.ask()):
            self._exits.push_async_callback(_cancel, asyncio.create_task(listening))
        await ears.ready.wait()
        await reader.ready.wait()

    async def _start(self, *names: str) -> None:
        # Awaited one by one if one of them fails: a half-started one must not be left behind.
        started = await asyncio.gather(*(self._actors[name].start() for name in names), return_exceptions=True)
        for failure in started:
            if isinstance(failure, BaseException):
                raise failure

    def _client(self, name: str) -> Client:
        """A client of a node; of one with TLS only after it has made its authority."""
        if name not in self._clients:
            client = self._clients[name] = Client(self._places[name].url, patience_s=self._options.patience_s)
            self._exits.push_async_callback(client.close)
        return self._clients[name]

    async def _enrol(self, names: list[str]) -> None:
        for name in names:
            made = await give(self._client(HUB), self._places[HUB], self._places[name])
            self._audience.say(f"{name} has a certificate of the hub's authority, valid until {made.not_after:%F}")

    async def _send_online(self) -> None:
        self._audience.say("10008 sends while 56001 is online")
        await self._send("online")
        await self._all_delivered_and_read()

    async def _send_while_away(self) -> None:
        self._audience.say("56001 is stopped (SIGTERM)")
        await self._actors[RECEIVER].stop()
        self._audience.say("10008 sends while 56001 is away")
        await self._send("away")
        is_safe = self._all(lambda item: item.was_stored or item.is_final, "away")
        await self._wait("the hub to have stored them", is_safe)

    async def _come_back(self) -> None:
        self._audience.say("56001 is started again")
        await self._actors[RECEIVER].start()
        self._audience.say(f"56001 is process {self._actors[RECEIVER].pid}")
        await self._all_delivered_and_read()

    async def _look_into_the_queues(self) -> Verdict:
        self._audience.say("all are delivered and read; the queues are being cleaned")
        left: dict[str, int] = {}

        async def are_clean() -> bool:
            left.update(await self._left())
            return not any(left.values())

        await self._wait("every queue to be clean", are_clean)
        return count(self._board, left, sum(actor.deaths for actor in self._actors.values()))

    async def _reckon(self) -> Reckoning:
        def tell(text: str) -> None:
            self._console.print(f"{stamp()} {text}", markup=False, soft_wrap=True)

        died = self._actors[HUB].deaths > 0
        reckoning = await reckon(
            self._places, tell, inject=self._options.inject, hub_died=died, secure=self._options.secure
        )
        print_reckoning(self._console, reckoning)
        return reckoning

    async def _stay(self) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        self._console.print("The nodes stay up; Ctrl-C ends them.")
        await stop.wait()

    # What the scenes are made of.

    async def _send(self, round_: str) -> None:
        papers = read_folder(self._options.documents, self._options.count)
        first = len(self._board.items) + 1
        items = [Item(number, paper, round_) for number, paper in enumerate(papers, first)]
        self._board.items += items
        at_once = asyncio.Semaphore(AT_ONCE if len(items) > MANY else 1)

        async def send(item: Item) -> None:
            async with at_once:
                await self._send_one(item)

        await asyncio.gather(*(send(item) for item in items))

    async def _send_one(self, item: Item) -> None:
        body = await asyncio.to_thread(item.paper.path.read_bytes)
        self._board.sending(item, body, self._clock.monotonic())
        try:
            sent = await self._clients[SENDER].send(
                RECEIVER,
                body,
                app_key=item.paper.app_key(item.number),
                content_type=item.paper.content_type,
                encrypt=self._options.secure,
            )
        except RefusedByNode as error:
            self._board.refused(item, str(error), self._clock.monotonic())
        else:
            self._board.accepted(item, sent, self._clock.monotonic())
        self._audience.show([item])
        if self._console.is_terminal and len(self._board.items) < MANY:
            await asyncio.sleep(PACE_S)

    async def _all_delivered_and_read(self) -> None:
        is_read = self._all(lambda item: item.was_received or item.state in ("failed", "refused"))
        await self._wait("56001 to have all of them", self._all(lambda item: item.is_final))
        await self._wait("the application of 56001 to have read them", is_read)

    async def _wait(self, what: str, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Until it is so; what is still not so in the end goes into the verdict."""
        until = self._clock.monotonic() + self._options.patience_s
        while not await is_so():
            if self._clock.monotonic() > until:
                error = TookTooLong(f"Waited in vain for {what}.", seconds=self._options.patience_s)
                self._audience.say(error.advice())
                return
            await asyncio.sleep(POLL_S)

    def _all(self, fits: Callable[[Item], bool], round_: str | None = None) -> Callable[[], Awaitable[bool]]:
        async def are_so() -> bool:
            return all(fits(item) for item in self._board.items if round_ in (None, item.round))

        return are_so

    async def _is_receiver_online(self) -> bool:
        status = await self._clients[SENDER].request("node.status")
        partner = status.get("partners", {}).get(f"1.{RECEIVER}", {})
        return bool(partner.get("online") and (partner.get("sealable") or not self._options.secure))

    async def _left(self) -> dict[str, int]:
        """Rows in the queues of the three nodes."""
        left = {}
        for name, client in self._clients.items():
            counts = await client.request("queue.counts")
            for queue in QUEUES:
                if name != HUB or queue == "tb_0031":  # the hub has no tb_0030
                    left[f"{name}.{queue}"] = _total(counts.get(queue, 0))
        return left


def _total(counts: object) -> int:
    """Rows of a queue, whether told as a number or by status."""
    if isinstance(counts, dict):
        return sum(_total(count) for count in counts.values())
    return int(counts) if isinstance(counts, int) else 0


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
