"""A document passes the modules that the picture of its way in ARCHITECTURE.md names."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from semq.app import Client
from tests.service.inprocess import InProcess, linked
from tests.waiting import until

ROOT = Path(__file__).parents[3]
MODULES_MAX = 155  # including modules that timers call, and those that answer the sender's requests for the outcome


@contextmanager
def traced() -> Iterator[set[str]]:
    """Collect the files of Python whose functions are called in this thread."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)


def modules_of_the_picture() -> Iterator[str]:
    """Yield the modules in the left column of the picture. A name without a folder is in the folder of the name before
    it.
    """
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("## The way of a document")[2]
    for names in re.findall(r"^[A-Za-z ]{5}\(?((?:\w+/)+\w+(?:, [\w/]+)*)", text.split("```")[1], re.MULTILINE):
        folder = ""
        for name in names.split(", "):
            folder = name.rpartition("/")[0] or folder
            yield f"{folder}/{name.rpartition('/')[2]}"


async def test_a_document_passes_the_modules_of_the_picture(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    a, b = await inprocess.secure_local("10008", hub), await inprocess.secure_local("56001", hub)
    await linked(a, b)
    await until(lambda: a.sealing is not None and a.sealing.keys.knows("1.56001"))
    login = "guest:guest@127.0.0.1"
    async with Client(f"amqp://{login}:{a.port}") as sender, Client(f"amqp://{login}:{b.port}") as receiver:
        async with receiver.receive() as documents:
            with traced() as files:
                sent = await sender.send("56001", b"<order/>")
                async for document in documents:
                    await document.ack()
                    break
                await sender.wait_for_delivery(sent.lk0)
    passed = {str(Path(name).relative_to(ROOT).with_suffix("")) for name in files if name.startswith(str(ROOT))}
    names = list(modules_of_the_picture())
    assert len(names) > 20
    assert [name for name in names if not any(module.endswith(name) for module in passed)] == []
    assert (
        len([module for module in passed if module.startswith(("semq/", "local_node/", "platform_node/"))])
        <= MODULES_MAX
    )
