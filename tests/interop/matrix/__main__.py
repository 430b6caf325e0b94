"""``python -m tests.interop.matrix``: install the clients, send and receive all values, write docs/clients.md."""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from semq.installation.empty_database import copy_empty_database
from semq.store.embedded.server import EmbeddedPostgres
from tests.conftest import _new_databases_of
from tests.interop.matrix import page
from tests.interop.matrix.installation import Program, installed
from tests.interop.matrix.programs import (
    DOORS,
    QUEUE,
    Arrived,
    NodesAndSites,
    received_by,
    received_by_door,
    sent_by,
    sent_by_door,
)
from tests.interop.matrix.values import Shown
from tests.service.inprocess import in_process, linked
from tests.waiting import until
from tests.web.running import serving

SENDS_ONLY = ("amqp-tools",)  # its programs do not show headers


async def compare(folder: Path, new_database: object, programs: list[Program]) -> str:
    async with in_process(folder, new_database) as started:  # type: ignore[arg-type]
        hub = await started.hub()
        a, b = [await started.local(name, hub.port) for name in ("10008", "56001")]
        await linked(a, b)
        await until(lambda: a.engine.partners.online.get("1.56001"))
        at_a, at_b = [await (await started.client(node)).open_channel() for node in (a, b)]
        await at_a.confirm_select()
        await at_a.declare_queue(QUEUE)
        async with serving(a) as site_a, serving(b) as site_b:
            nodes = NodesAndSites(a, b, site_a, site_b, at_a, at_b)
            sent: dict[str, Arrived] = {}
            shown: dict[str, dict[str, Shown | None]] = {}
            for program in programs:
                print(program.name, file=sys.stderr)
                sent[program.name] = await sent_by(nodes, program)
                if not program.name.startswith(SENDS_ONLY):
                    shown[program.name] = await received_by(nodes, program)
            for door in DOORS:
                print(door, file=sys.stderr)
                sent[door] = await sent_by_door(nodes, door)
                shown[door] = await received_by_door(nodes, door)
        return page.tables(sent, shown)


def main() -> None:
    with TemporaryDirectory(prefix="matrix-") as name, installed() as programs:
        folder = Path(name)
        copy_empty_database(folder / "pg")
        with EmbeddedPostgres(folder / "pg") as postgres, _new_databases_of(postgres) as new_database:
            page.write(asyncio.run(compare(folder, new_database, programs)))


if __name__ == "__main__":
    main()
