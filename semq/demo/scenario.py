"""The steps of the demo: send while 56001 is online, then while it is offline, start it, check queues, reconcile.

``cluster`` and ``hubless`` override some steps.
"""

import asyncio
import shutil
import signal
import tempfile
from argparse import Namespace
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from rich.console import Console

from semq.app import AlreadyGone, Client, Document, DocumentEvent, NotDelivered, RefusedByNode
from semq.app.content_type import content_type_of
from semq.app.subscription import Subscription
from semq.clock import SystemClock
from semq.demo.configuration import RECEIVER, REPORTS, SENDER, write_configuration
from semq.demo.display import HINTS, HINTS_STAYING, SAMPLES, Display
from semq.demo.past import fill_charts
from semq.demo.reconciliation import Reconciliation, reconcile
from semq.demo.tracker import DocumentTracker, TrackedDocument, documents_of
from semq.errors import SemqError
from semq.installation.configuration import HUB, NodePlace
from semq.installation.enrolment import ensure_enrolled
from semq.installation.supervision import SupervisedNode
from semq.moments import local_text

POLL_S = 0.1
TRADE_S = 0.5  # pause between two documents while the nodes stay


async def run(
    kind: "type[Scenario]", options: Namespace, console: Console
) -> tuple[dict[str, object], Reconciliation | None]:
    """Run a kind of demo; return the counts, and the result of the reconciliation (None: ``--no-reconcile``).

    SIGINT and SIGTERM cancel the demo. Unless ``options.keep``, only the report stays in the folder.
    """
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may have set SIGINT to be ignored
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    folder = (options.data_dir or Path(tempfile.mkdtemp(prefix="semq-demo-"))).resolve()
    try:
        async with AsyncExitStack() as exits:
            return await kind(options, console, folder, exits).run()
    finally:
        if not options.keep:
            for path in folder.iterdir():
                if path.name != REPORTS:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
            if not (folder / REPORTS).exists():
                folder.rmdir()


class Scenario:
    """One run of the demo with a hub."""

    receivers: Sequence[str] = (RECEIVER,)

    def __init__(self, options: Namespace, console: Console, folder: Path, exits: AsyncExitStack) -> None:
        self._options = options
        self._folder = folder
        self._exits = exits
        self._tracker = DocumentTracker()
        self.began_at = SystemClock().wall()
        self._places = self._configured()
        self._display = Display(console, self._tracker)
        self._say = self._display.print_with_time
        self._tracker.on_change = self._display.show_state
        self._nodes = {name: SupervisedNode(place, self._say) for name, place in self._places.items()}
        self._clients: dict[str, Client] = {}
        self._is_staying = False  #: the documents of the demo are counted; others follow

    async def run(self) -> tuple[dict[str, object], Reconciliation | None]:
        """Run all steps. Return what the function ``run`` returns."""
        options, places = self._options, self._places
        source = "the sample documents" if options.documents == SAMPLES else options.documents
        folder_at_end = "kept" if options.keep else "removed at the end except for the report; --keep keeps it"
        self._display.print_line(f"SEMQ demo: 10008 sends {source} {self.way()}.")
        self._display.print_line(f"All files are in {self._folder} ({folder_at_end}).")
        await self._start()
        verb = "are" if len(self.receivers) > 1 else "is"
        self._say(f"10008 sends while {', '.join(self.receivers)} {verb} online")
        await self._send("online")
        await self._wait("all documents to be read", self._are_read)
        await self._send_away()
        await self._wait("all documents to be read", self._are_read)
        self._say("all documents are delivered and read; the nodes clean their queues")
        await self._wait("every queue to be empty", self._are_queues_empty)
        restarts = sum(node.deaths for node in self._nodes.values())
        counts = self._tracker.count(await self._rows_left(), restarts) | self.more_counts()
        self._display.counts(counts)
        result = None
        if options.reconcile:
            result = await reconcile(
                self.extracted(),
                self._say,
                inject=options.inject,
                hub_died=any(self._nodes[name].deaths for name in self.hubs()),
                secure=options.secure and not options.direct,
            )
            self._display.reconciliation(result)
        hints = HINTS_STAYING if options.stay else HINTS
        named = {"sender": places[SENDER], "hub": places.get(HUB), "semq": options.semq, "demo": options.demo}
        self._display.print_line(hints.format(**named))
        if options.stay:
            await self._stay()
        return counts, result

    # ------------------------------------------------------------ steps that other kinds of demo override

    def _configured(self) -> dict[str, NodePlace]:
        options = self._options
        return write_configuration(
            self._folder, self.began_at.hour, secure=options.secure, direct=options.direct, consoles=options.stay
        )

    async def _start_nodes(self) -> None:
        self._say("starting the hub and the institutions 10008 and 56001, each with its own database")
        if self._options.secure:
            await self._nodes[HUB].run()
            for name in (SENDER, RECEIVER):
                certificate = await ensure_enrolled(self._nodes[HUB], self._nodes[name])
                until = local_text(certificate.not_after)
                self._say(f"{name} has a certificate of the hub's authority, valid until {until}")
        await self._run_all(name for name, node in self._nodes.items() if node.pid is None)

    def hubs(self) -> list[str]:
        return [name for name, place in self._places.items() if place.node_id == HUB]

    def served(self) -> Iterable[str]:
        return self._places

    def way(self) -> str:
        return "to 56001 through a hub, then by a direct link" if self._options.direct else "to 56001 through a hub"

    def more_counts(self) -> dict[str, object]:
        """Return counts that only this kind of demo has."""
        return {}

    def extracted(self) -> dict[str, NodePlace]:
        return self._places

    async def _send_away(self) -> None:
        """Send while 56001 is offline, then start it again. With a direct link, first kill the hub."""
        if self._options.direct:
            await self._kill_hub()
        await self._stop_receiver()
        self._say("10008 sends while 56001 is offline")
        await self._send("away")
        if not self._options.direct:  # with a direct link the documents wait at 10008
            await self._wait("the hub to have stored all documents", self._are_stored)
        await self._start_receiver()

    # ------------------------------------------------------------ steps

    async def _stop_receiver(self) -> None:
        self._say("56001 is stopped (SIGTERM)")
        await self._nodes[RECEIVER].stop()

    async def _start_receiver(self) -> None:
        self._say("56001 is started again")
        await self._nodes[RECEIVER].run()
        self._say(f"56001 is process {self._nodes[RECEIVER].pid}")

    async def _kill_hub(self) -> None:
        """Kill the hub, so that further documents use the direct link."""
        await self._wait("every queue to be empty", self._are_queues_empty)
        self._say("the hub is killed (SIGKILL) and not started again")
        await self._nodes[HUB].kill()
        await self._clients.pop(HUB).close()

    async def _start(self) -> None:
        for node in self._nodes.values():
            self._exits.push_async_callback(node.remove)
        await self._start_nodes()
        for name, place in self._places.items():
            self._say(f"{name:5} is process {self._nodes[name].pid}, port {place.port}, log {place.log}")
        for name in self.served():
            if name not in self._clients:
                self._connect(name)
        await self._wait("10008 to see all receivers online", self._are_receivers_online)
        (self._folder / "received").mkdir(exist_ok=True)
        for name in self.receivers:
            self._start_task(self._receive(await self._clients[name].receive(prefetch=50).open()))
        self._start_task(self._follow(await self._clients[SENDER].events().open()))

    async def _run_all(self, names: Iterable[str]) -> None:
        # Await all even if one fails: `SupervisedNode.remove` must not be called during a start.
        starts = (self._nodes[name].run() for name in names)
        for failure in await asyncio.gather(*starts, return_exceptions=True):
            if failure is not None:
                raise failure

    def _connect(self, name: str) -> None:
        client = self._clients[name] = Client(self._places[name].url, patience_s=self._options.patience_s)
        self._exits.push_async_callback(client.close)

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._exits.push_async_callback(asyncio.wait, [task])
        self._exits.callback(task.cancel)  # before the wait: callbacks run in reverse order

    async def _receive(self, documents: Subscription[Document]) -> None:
        """Write each document of a receiver to a file, then acknowledge it."""
        async for delivered in documents:
            if self._is_staying:
                with suppress(AlreadyGone):
                    await delivered.ack()
                continue
            self._tracker.note_delivery(delivered)
            # With the locator in the name, a repeated delivery writes the same file.
            path = self._folder / "received" / f"{delivered.lk0}-{Path(delivered.app_key.key).name}"
            await asyncio.to_thread(path.write_bytes, delivered.payload)
            with suppress(AlreadyGone):  # without a connection, the document will be delivered again
                await delivered.ack()
                self._display.show_read(delivered.app_key)

    async def _follow(self, events: Subscription[DocumentEvent]) -> None:
        """Update the states of documents by the events of 10008."""
        async for event in events:
            self._tracker.advance(self._tracker.documents.get(event.app_key), event.kind, event.reason)

    async def _send(self, round_: str) -> None:
        options, client = self._options, self._clients[SENDER]
        first = len(self._tracker.documents) + 1
        documents = documents_of(options.documents, options.count, round_, first, self.receivers)
        self._tracker.documents |= {document.app_key: document for document in documents}
        for document in documents:
            body = await asyncio.to_thread(document.path.read_bytes)
            self._tracker.note_submission(document, body)
            key, kind = document.app_key, content_type_of(document.name, body)
            try:
                sent = await client.send(document.target, body, app_key=key, content_type=kind, encrypt=options.secure)
            except RefusedByNode as error:
                self._tracker.advance(document, "refused", str(error))
            else:
                self._tracker.note_acceptance(document, sent)
                self._start_task(self._await_outcome(document))

    async def _await_outcome(self, document: TrackedDocument) -> None:
        """Wait for the outcome of a document: a killed node may not have sent an event about it."""
        while not document.is_final:
            try:
                await self._clients[SENDER].wait_for_delivery(document.lk0, self._options.patience_s)
                self._tracker.advance(document, "delivered")
            except NotDelivered as error:
                self._tracker.advance(document, "failed", str(error))
            except SemqError:
                await asyncio.sleep(POLL_S)  # the node is unavailable for the moment

    async def _wait(self, expectation: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a condition. The demo continues after a timeout: the counts at the end show the fault."""
        for _ in range(int(self._options.patience_s / POLL_S)):
            if await condition():
                return
            await asyncio.sleep(POLL_S)
        self._say(f"timeout while waiting for {expectation}; a slow machine needs a longer --patience")

    async def _are_receivers_online(self) -> bool:
        status = await self._clients[SENDER].request("node.status")
        partners = [status.get("partners", {}).get(f"1.{name}", {}) for name in self.receivers]
        link = status.get("direct", {}).get(f"1.{RECEIVER}", {}).get("link")
        is_linked = link == "up" or not self._options.direct
        is_sealable = all(partner.get("sealable") for partner in partners) or not self._options.secure
        return bool(is_linked and is_sealable and all(partner.get("online") for partner in partners))

    async def _are_stored(self) -> bool:
        """Whether the hub has stored all documents that have not ended. If so, note the state ``stored``."""
        waiting = [document for document in self._tracker.documents.values() if not document.is_final]
        stores = [name for name in self.hubs() if name in self._clients]
        if sum((await self._rows_left(*stores)).values()) < len(waiting):
            return False
        for document in waiting:  # events of a killed node may be missing
            self._tracker.advance(document, "stored")
        return True

    async def _are_read(self) -> bool:
        """Whether all documents have ended and the applications have read all delivered ones."""
        documents = self._tracker.documents.values()
        return all(one.is_final and (one.received or one.state != "delivered") for one in documents)

    async def _are_queues_empty(self) -> bool:
        return not any((await self._rows_left()).values())

    async def _rows_left(self, *names: str) -> dict[str, int]:
        """Return the number of rows by queue of the named nodes, or of all nodes."""
        rows: dict[str, int] = {}
        for name in names or self._clients:
            counts = await self._clients[name].request("queue.census", {"fresh": True})
            queues = {"tb_0031": "sent"} if name in self.hubs() else {"tb_0031": "sent", "tb_0030": "received"}
            rows |= {f"{name}.{table}": sum(counts[queue].values()) for table, queue in queues.items()}
        return rows

    async def _stay(self) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
        self._is_staying = True
        pairs = [pair for each in self.receivers for pair in ((SENDER, each), (each, SENDER))]
        for place in self._places.values():
            await asyncio.to_thread(fill_charts, place, pairs, self.began_at)  # no minute or hour that has real figures
        self._start_task(self._receive(await self._clients[SENDER].receive(prefetch=50).open()))
        self._start_task(self._trade())
        for name, node in self._nodes.items():
            self._display.print_line(f"console of {name}: {await asyncio.to_thread(node.console)}")
        self._display.print_line("Figures of the week before are made up, to fill the charts of the consoles.")
        self._display.print_line("The nodes keep running and keep sending documents; Ctrl-C stops them.")
        await stop.wait()

    async def _trade(self) -> None:
        """Send the documents again and again, with new keys, and as many back, so that the consoles show traffic."""
        number, options = len(self._tracker.documents) + 1, self._options
        while True:
            for document in documents_of(options.documents, options.count, "stay", number, self.receivers):
                body = await asyncio.to_thread(document.path.read_bytes)
                for source, target in ((SENDER, document.target), (document.target, SENDER)):
                    with suppress(SemqError):  # a visitor may have stopped a node
                        await self._clients[source].send(target, body, app_key=document.app_key)
                number += 1
                await asyncio.sleep(TRADE_S)
