"""Documents pass the modules that the pictures in ARCHITECTURE.md show, in their order and at their nodes."""

import asyncio
import re
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import pytest
from msgspec.structs import replace

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.app import Client, Document, DocumentEvent
from semq.app.subscription import Subscription
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

ROOT = Path(__file__).parents[3]
# Maximum number of modules on the way of each document, including those that answer the sender. Timers that fall into
# the way of one document by chance do not fall into that of all three.
MODULES_MAX = 156
DOCUMENTS = 3
R = TypeVar("R")
Call = tuple[str, str]  # node, and module as a path without the ending

# Tasks and callbacks of a node inherit the context in which the node was started.
NODE: ContextVar[str] = ContextVar("NODE", default="")


class Step(NamedTuple):
    """A line of a picture. ``number``: 0 if the step has no place in the order."""

    number: int
    node: str
    modules: tuple[str, ...]


async def at(node: str, work: Coroutine[Any, Any, R]) -> R:
    """Run ``work`` so that all its calls count as calls of ``node``."""
    context = copy_context()
    context.run(NODE.set, node)
    return await asyncio.get_running_loop().create_task(work, context=context)


@contextmanager
def traced() -> Iterator[list[Call]]:
    """Collect the calls of this project's modules in order; successive calls of a module at a node count once."""
    calls: list[Call] = []
    modules: dict[str, str] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        module = modules.get(name)
        if module is None:
            is_ours = name.startswith(f"{ROOT}/") and "/.venv/" not in name
            module = modules[name] = str(Path(name).relative_to(ROOT).with_suffix("")) if is_ours else ""
        if module and event == "call":
            call = NODE.get(), module
            if not calls or calls[-1] != call:
                calls.append(call)

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


MODULE = r"\w+(?:/\w+)+"
LINE = re.compile(rf"^ *(?P<number>\d+|–) (?P<node>A|B|hub) +(?P<modules>{MODULE}(?:, {MODULE})*)(?:  +\S.*)?$")


def pictures() -> list[list[Step]]:
    """Return the steps of each picture. Fails at a line without the form of a step."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## The way of a document")[2].partition("\n## ")[0]
    return [steps(block) for block in text.split("```")[1::2]]


def steps(block: str) -> list[Step]:
    found = []
    for line in block.strip("\n").splitlines():
        if line.startswith(" " * 12):
            continue  # more text of the step above
        match = LINE.match(line)
        assert match is not None, f"A step has the form ' NUMBER NODE  MODULES  TEXT', or – for NUMBER: {line!r}"
        modules = tuple(module_of(name) for name in match["modules"].split(", "))
        number = match["number"].strip()
        found.append(Step(0 if number == "–" else int(number), match["node"], modules))
    numbers = [step.number for step in found if step.number]
    assert numbers == list(range(1, len(numbers) + 1)), "The steps of a picture are numbered from 1."
    return found


def module_of(name: str) -> str:
    """Return the path of a module; pictures leave out ``semq/``."""
    for path in (f"semq/{name}", name):
        if (ROOT / f"{path}.py").is_file():
            return path
    raise AssertionError(f"A picture in ARCHITECTURE.md names {name}, which is no module.")


def faults(picture: list[Step], calls: list[Call]) -> Iterator[str]:
    """Yield a text for each module of a picture that was not called at its node after the step before."""
    after = 0
    for step in picture:
        begin = after
        for module in step.modules:
            call = step.node, module
            places = [index for index in range(begin if step.number else 0, len(calls)) if calls[index] == call]
            if places:
                after = max(after, places[0]) if step.number else after
            elif call in calls:
                yield f"Step {step.number}: {module} is called at {step.node}, but not after the step before."
            else:
                nodes = sorted({node for node, each in calls if each == module}) or "nowhere"
                yield f"Step {step.number or '–'}: {module} is not called at {step.node}, but at {nodes}."


def check(picture: list[Step], calls: list[Call]) -> None:
    assert list(faults(picture, calls)) == []


ONLINE, SILENT, OFFLINE = range(3)  # positions of the pictures


async def is_deleted(client: Client, lk0: str) -> bool:
    """Return whether the node has deleted its row of a message."""
    return bool((await client.look(lk0)).get("cleaned"))


async def start(nodes: InProcess, inquiry_s: float = 0.5) -> tuple[HubNode, LocalNode, LocalNode]:
    """Start a hub and two institutions that have each other's certificates.

    ``inquiry_s``: first interval of A's inquiries.
    """
    hub = await at("hub", nodes.secure_hub())
    settings = nodes.secure_settings("10008", hub)
    protocol = settings.protocol.model_copy(update={"inquiry_s": inquiry_s})
    await nodes.enrol(settings, hub)
    a = await at("A", nodes.start_node(settings.model_copy(update={"protocol": protocol})))
    b = await at("B", nodes.secure_local("56001", hub))
    await linked(a, b)
    await until(lambda: a.sealing is not None and a.sealing.keys.knows("1.56001"))
    await until(lambda: b.sealing is not None and b.sealing.keys.knows("1.10008"))
    return hub, a, b


def client_of(node: LocalNode) -> Client:
    return Client(f"amqp://guest:guest@127.0.0.1:{node.port}")


async def test_a_document_to_a_partner_that_is_online_passes_the_modules_of_the_picture(inprocess: InProcess) -> None:
    _, a, b = await start(inprocess)
    async with client_of(a) as sender, client_of(b) as receiver:
        async with receiver.receive() as documents, sender.events() as events:
            await until(lambda: b.parts.inboxes.queues[""].has_consumer)
            ways = [await _way(sender, receiver, documents, events) for _ in range(DOCUMENTS)]
    product = ("semq/", "local_node/", "platform_node/")
    passed = [{module for node, module in calls if node and module.startswith(product)} for calls in ways]
    assert len(set.intersection(*passed)) <= MODULES_MAX
    check(pictures()[ONLINE], ways[0])


async def _way(
    sender: Client, receiver: Client, documents: Subscription[Document], events: Subscription[DocumentEvent]
) -> list[Call]:
    """Send a document, and return the calls until nothing is left of it."""
    with traced() as calls:
        sent = await sender.send("56001", b"<order/>")
        await (await documents.__anext__()).ack()
        while not (await events.__anext__()).is_final:
            pass
        await until(lambda: is_deleted(receiver, sent.lk0))
    return calls


async def test_a_document_that_its_receiver_does_not_record_is_asked_about_and_sent_again(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, a, b = await start(inprocess, inquiry_s=1.5)
    hub.engine.core.reconfigure(replace(hub.engine.core.settings, forward_note_s=0.1))  # earlier than the inquiry
    record = b.engine.receiver.receive_messages

    def drop(*_: object) -> None:
        monkeypatch.setattr(b.engine.receiver, "receive_messages", record)

    monkeypatch.setattr(b.engine.receiver, "receive_messages", drop)
    async with client_of(a) as sender:
        with traced() as calls:
            sent = await sender.send("56001", b"<order/>")
            await sender.wait_for_delivery(sent.lk0)
    check(pictures()[SILENT], calls)


async def test_a_document_to_a_partner_that_is_offline_passes_the_modules_of_the_picture(inprocess: InProcess) -> None:
    _, a, b = await start(inprocess)
    settings = b.settings
    await b.stop()
    await until(lambda: not a.engine.partners.online.get("1.56001", True))
    async with client_of(a) as sender:
        with traced() as calls:
            sent = await sender.send("56001", b"<order/>")
            await until(lambda: is_stored(sender, sent.lk0))
            b = await at("B", inprocess.start_node(settings))
            await sender.wait_for_delivery(sent.lk0)
    check(pictures()[OFFLINE], calls)


async def is_stored(client: Client, lk0: str) -> bool:
    return bool((await client.look(lk0))["ss_status"] == "SS_ACK")


def test_a_picture_with_a_fault_is_not_accepted() -> None:
    ordered = [("A", "semq/engine/mail"), ("hub", "semq/engine/frames")]
    text = " 1 A    engine/mail   record\n 2 hub  engine/frames   frame\n"
    assert list(faults(steps(text), ordered)) == []
    for wrong in (text.replace("A ", "B "), text.replace("engine/frames", "engine/core")):
        assert len(list(faults(steps(wrong), ordered))) == 1
    assert len(list(faults(steps(text), ordered[::-1]))) == 1
    assert list(faults(steps(text.replace(" 2", " –")), ordered[::-1])) == []
    for old, new in (("mail", "male"), (" 2", " 3"), ("hub", "C"), ("record", "record\n and so on")):
        with pytest.raises(AssertionError):
            steps(text.replace(old, new))
