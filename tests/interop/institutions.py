"""Two institutions and their hub in this process, between which programs of other projects send documents."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from local_node.node import LocalNode
from semq.installation.empty_database import copy_empty_database
from semq.store.embedded.server import EmbeddedPostgres
from tests.conftest import _new_databases_of
from tests.service.inprocess import InProcess, in_process, linked
from tests.waiting import until

T = TypeVar("T")
SENDER, RECEIVER = "10008", "56001"


class Institutions(NamedTuple):
    """The nodes of both institutions."""

    started: InProcess
    sender: LocalNode
    receiver: LocalNode
    folder: Path  #: of the caller, removed at the end


def url_of(node: LocalNode) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


def between_institutions(work: Callable[[Institutions], Awaitable[T]]) -> T:
    """Start the nodes, and return the result of ``work``."""
    with TemporaryDirectory(prefix="interop-") as name:
        folder = Path(name)
        copy_empty_database(folder / "pg")
        with EmbeddedPostgres(folder / "pg") as postgres, _new_databases_of(postgres) as new_database:

            async def run() -> T:
                async with in_process(folder, new_database) as started:
                    hub = await started.hub()
                    a, b = [await started.local(name, hub.port) for name in (SENDER, RECEIVER)]
                    await linked(a, b)
                    await until(lambda: a.engine.partners.online.get(f"1.{RECEIVER}"))
                    (folder / "files").mkdir()
                    return await work(Institutions(started, a, b, folder / "files"))

            return asyncio.run(run())
