"""The steps of the demo: send online, send while 56001 is offline, start it again, check the queues, reconcile.

``main`` is the process. The applications of ``applications`` run as tasks beside the steps.
"""

import asyncio
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from semq.app import Client, RefusedByNode
from semq.clock import SystemClock
from semq.demo.applications import ask, listen, receive
from semq.demo.configuration import RECEIVER, REPORTS, SENDER, write_configuration
from semq.demo.counts import Counts, count
from semq.demo.display import Display, print_counts, print_hints, print_introduction, print_reconciliation
from semq.demo.files import read_folder
from semq.demo.options import Options, read_options
from semq.demo.reconciliation import Reconciliation, reconcile
from semq.demo.tracker import DocumentTracker, TrackedDocument
from semq.errors import BadInput, SemqError
from semq.installation.configuration import HUB
from semq.installation.enrolment import enrolled
from semq.installation.supervision import SupervisedNode
from semq.moments import local_text

EXIT_GOOD, EXIT_BAD, EXIT_USAGE, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = 0, 1, 2, 69, 130
POLL_S = 0.1
MANY = 100  # from this number of documents, several are sent in parallel
AT_ONCE = 16
Condition = Callable[[], bool | Awaitable[bool]]


def main(argv: list[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    options = read_options(argv)
    console = Console(stderr=options.json, highlight=False)
    try:
        counts, reconciled = asyncio.run(_run(options, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; the nodes have been stopped")
        return EXIT_INTERRUPTED
    except SemqError as error:
        print(f"demo: {error.advice()}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, BadInput) else EXIT_UNAVAILABLE
    is_good = counts.is_good and (reconciled is None or reconciled.is_good)
    if options.json:
        extra = {} if reconciled is None else {"ok": is_good, "reconcile": asdict(reconciled)}
        print(json.dumps(counts.as_json() | extra), flush=True)
    return EXIT_GOOD if is_good else EXIT_BAD


async def _run(options: Options, console: Console) -> tuple[Counts, Reconciliation | None]:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):  # also if a shell started the demo with SIGINT ignored
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    read_folder(options.documents, options.count)  # raises NoDocuments before any process is started
    folder = (options.data_dir or Path(tempfile.mkdtemp(prefix="semq-demo-"))).resolve()
    try:
        async with AsyncExitStack() as exits:
            return await Scenario(options, console, folder, exits).run()
    finally:
        if not options.keep:
            _remove_all_but_reports(folder)


def _remove_all_but_reports(folder: Path) -> None:
    for one in folder.iterdir():
        if one.name != REPORTS:
            shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink()
    if not (folder / REPORTS).exists():
        folder.rmdir()


class Scenario:
    """One run of the demo."""

    def __init__(self, options: Options, console: Console, folder: Path, exits: AsyncExitStack) -> None:
        self._options = options
        self._console = console
        self._folder = folder
        self._exits = exits
        self._clock = SystemClock()
        self._tracker = DocumentTracker()
        self._places = write_configuration(
            folder, self._clock.wall().hour, secure=options.secure, consoles=options.stay
        )
        print_introduction(console, options, folder)
        self._display = Display(console, self._tracker)
        self._tracker.on_change, self._tracker.on_read = self._display.changed, self._display.read
        self._processes = {name: SupervisedNode(place, self._display.say) for name, place in self._places.items()}
        self._clients: dict[str, Client] = {}

    async def run(self) -> tuple[Counts, Reconciliation | None]:
        """Run all steps."""
        await self._start_nodes()
        await self._start_applications()
        await self._send_online()
        await self._send_while_offline()
        await self._start_receiver_again()
        counts = await self._count()
        print_counts(self._console, counts)
        reconciled = await self._reconcile() if self._options.reconcile else None
        print_hints(self._console, self._options, self._places)
        if self._options.stay:
            await self._stay()
        return counts, reconciled

    async def _start_nodes(self) -> None:
        say, names = self._display.say, list(self._places)
        say("starting the hub and the institutions 10008 and 56001, each with its own database")
        for process in self._processes.values():
            self._exits.push_async_callback(process.remove)
        if self._options.secure:
            names.remove(HUB)
            await self._start(HUB)
            for name in names:
                certificate = await enrolled(self._processes[HUB], self._processes[name])
                until = local_text(certificate.not_after)
                say(f"{name} has a certificate of the hub's authority, valid until {until}")
        await self._start(*names)
        for name, place in self._places.items():
            say(f"{name:5} is process {self._processes[name].pid}, port {place.port}, log {place.log}")

    async def _start(self, *names: str) -> None:
        # All are awaited even if one fails: ``clear`` must not meet one that is still starting.
        started = await asyncio.gather(*(self._processes[name].run() for name in names), return_exceptions=True)
        for failure in filter(None, started):
            raise failure

    def _client(self, name: str) -> Client:
        """Return the client of a node; with TLS, not before the node has created its authority."""
        if name not in self._clients:
            client = self._clients[name] = Client(self._places[name].url, patience_s=self._options.patience_s)
            self._exits.push_async_callback(client.close)
        return self._clients[name]

    async def _start_applications(self) -> None:
        await self._wait("10008 to see 56001 online", self._is_receiver_online)
        files, tracker = self._folder / "received", self._tracker
        files.mkdir(exist_ok=True)
        receives, listens = asyncio.Event(), asyncio.Event()
        for application in (
            receive(self._client(RECEIVER), tracker, files, receives),
            listen(self._client(SENDER), tracker, listens),
            ask(self._client(SENDER), tracker),
        ):
            self._exits.push_async_callback(_cancel, asyncio.create_task(application))
        await receives.wait()
        await listens.wait()

    async def _send_online(self) -> None:
        self._display.say("10008 sends while 56001 is online")
        await self._send("online")
        await self._all_delivered_and_read()

    async def _send_while_offline(self) -> None:
        self._display.say("56001 is stopped (SIGTERM)")
        await self._processes[RECEIVER].stop()
        self._display.say("10008 sends while 56001 is offline")
        await self._send("away")
        is_safe = self._all(lambda one: one.round == "online" or one.was_stored or one.is_final)
        await self._wait("the hub to have stored all documents", is_safe)

    async def _start_receiver_again(self) -> None:
        self._display.say("56001 is started again")
        await self._processes[RECEIVER].run()
        self._display.say(f"56001 is process {self._processes[RECEIVER].pid}")
        await self._all_delivered_and_read()

    async def _count(self) -> Counts:
        self._display.say("all documents are delivered and read; the nodes clean their queues")
        left: dict[str, int] = {}

        async def are_empty() -> bool:
            left.update(await self._rows_left())
            return not any(left.values())

        await self._wait("every queue to be empty", are_empty)
        return count(self._tracker, left, sum(process.deaths for process in self._processes.values()))

    async def _reconcile(self) -> Reconciliation:
        hub_died, options, say = self._processes[HUB].deaths > 0, self._options, self._display.say
        found = await reconcile(self._places, say, inject=options.inject, hub_died=hub_died, secure=options.secure)
        print_reconciliation(self._console, found)
        return found

    async def _stay(self) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        for name, process in self._processes.items():
            link = await asyncio.to_thread(process.console)
            self._console.print(f"console of {name}: {link}", markup=False, soft_wrap=True)
        self._console.print("The nodes keep running; Ctrl-C stops them.")
        await stop.wait()

    async def _send(self, round_: str) -> None:
        files = read_folder(self._options.documents, self._options.count)
        first = len(self._tracker.documents) + 1
        documents = [TrackedDocument(number, file, round_) for number, file in enumerate(files, first)]
        self._tracker.documents += documents
        at_once = asyncio.Semaphore(AT_ONCE if len(documents) > MANY else 1)
        await asyncio.gather(*(self._send_one(document, at_once) for document in documents))

    async def _send_one(self, document: TrackedDocument, at_once: asyncio.Semaphore) -> None:
        async with at_once:
            file, sender = document.file, self._client(SENDER)
            body = await asyncio.to_thread(file.path.read_bytes)
            self._tracker.submitting(document, body)
            key, encrypt = file.app_key(document.number), self._options.secure
            try:
                sent = await sender.send(RECEIVER, body, app_key=key, content_type=file.content_type, encrypt=encrypt)
            except RefusedByNode as error:
                self._tracker.refused(document, str(error))
            else:
                self._tracker.accepted(document, sent)

    async def _all_delivered_and_read(self) -> None:
        await self._wait("56001 to have all documents", self._all(lambda one: one.is_final))
        is_read = self._all(lambda one: one.was_received or one.state in ("failed", "refused"))
        await self._wait("the application of 56001 to have read them", is_read)

    async def _wait(self, what: str, condition: Condition) -> None:
        """Wait for a condition; after a timeout continue, because the counts show what is missing."""
        until = self._clock.monotonic() + self._options.patience_s
        while not (met if isinstance(met := condition(), bool) else await met):
            if self._clock.monotonic() > until:
                self._display.say(f"timeout while waiting for {what}; a slow machine needs a longer --patience")
                return
            await asyncio.sleep(POLL_S)

    def _all(self, matches: Callable[[TrackedDocument], bool]) -> Condition:
        return lambda: all(map(matches, self._tracker.documents))

    async def _is_receiver_online(self) -> bool:
        status = await self._client(SENDER).request("node.status")
        partner = status.get("partners", {}).get(f"1.{RECEIVER}", {})
        return bool(partner.get("online") and (partner.get("sealable") or not self._options.secure))

    async def _rows_left(self) -> dict[str, int]:
        """Return the number of rows in the queues of the three nodes."""
        left = {}
        for name in self._places:
            counts = await self._client(name).request("queue.counts")
            for queue in ("tb_0031",) if name == HUB else ("tb_0031", "tb_0030"):
                left[f"{name}.{queue}"] = sum(counts[queue].values())
        return left


async def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
