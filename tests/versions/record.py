"""``./run python -m tests.versions.record``: record what a release writes, for later versions to read.

| file             | contents                                                                                        |
|------------------|-------------------------------------------------------------------------------------------------|
| frames.json      | frames between nodes as AMQP carries them, and what this version reads in them                  |
| databases/NODE   | `semq db backup` of a hub and two institutions with documents that wait everywhere              |
| documents.json   | the bodies of these documents, by what becomes of them                                          |
| extracts         | extracts for the reconciliation with every verdict                                              |
| verdicts.json    | their true verdicts                                                                             |

Run it once, on the commit of the release, and note that commit in ``released``. Never record a release again with
later sources.
"""

import asyncio
import json
import shutil
import sys
from base64 import b64encode
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
import psycopg

from bench.reconciliation.invention import generate
from semq.amqp.content import ContentHeader
from semq.app import Client
from semq.engine import frames
from semq.store import backup
from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.server import EmbeddedPostgres
from semq.umx_t.envelope import Data, Frame
from semq.umx_t.status import SendStatus
from spark_reconcile.days import Calendar
from spark_reconcile.storage import Place
from tests.conftest import new_database_of
from tests.pki.people import authority, ring
from tests.service.inprocess import HUB_CONFIG, LOCAL_CONFIG, InProcess, in_process, linked
from tests.spark_reconcile.office import DAY, StandingClock
from tests.versions.released import RECORDED
from tests.waiting import until

NODES = ("hub", "10008", "56001")
HUB_OF_BOTH = HUB_CONFIG.replace('"pass-56001"\n', '"pass-56001"\nmay_send_to = ["10008"]\n') + "[datagrams]\n"
EACH_MAX = 3  # recorded frames of each kind
FAR_AWAY = 4_000_000_000_000  # milliseconds since 1970: the year 2096


def facts_of(frame: Frame) -> Any:
    """Return what was read in a frame as JSON values, without its bytes."""
    bare = msgspec.structs.replace(frame, header=None, body=b"")
    return json.loads(msgspec.json.encode(bare, enc_hook=str))


def kind_of(frame: Frame) -> str:
    if isinstance(frame, Data):
        return f"DATA {'sealed' if frame.envelope.is_sealed else 'clear'}"
    return f"{frame.function.name} {frame.primitive.name}"


class FrameRecorder:
    """Records frames that nodes of this process read."""

    def __init__(self) -> None:
        self.found: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def read(self, routing_key: str, header: ContentHeader, body: Any) -> Frame:
        frame = READ(routing_key, header, body)
        kind = kind_of(frame)
        if len(self.found[kind]) < EACH_MAX:
            raw = {"routing_key": routing_key, "header": header.raw.hex(), "body": b64encode(bytes(body)).decode()}
            self.found[kind].append({**raw, "read": facts_of(frame)})
        return frame


READ = frames.read_frame


@asynccontextmanager
async def network(nodes: InProcess) -> AsyncIterator[dict[str, Any]]:
    """Yield a hub and two institutions in this process, without certificates, which would expire."""
    hub = await nodes.hub(HUB_OF_BOTH)
    started: dict[str, Any] = {"hub": hub}
    for name in NODES[1:]:
        started[name] = await nodes.local(name, hub.port)
    await linked(*(started[name] for name in NODES[1:]))
    yield started


async def record_frames(nodes: InProcess) -> dict[str, list[dict[str, Any]]]:
    """Record frames of nodes with certificates: documents of all classes, receipts, inquiries, presence, datagrams."""
    recorder, ours = FrameRecorder(), authority()
    hub = await nodes.hub(HUB_OF_BOTH)
    with ExitStack() as patches:
        for module in [module for name, module in sys.modules.items() if name.startswith(("semq.", "local_node."))]:
            if getattr(module, "read_frame", None) is READ:
                patches.enter_context(patch.object(module, "read_frame", recorder.read))
        locals_ = []
        for name in NODES[1:]:
            settings = nodes.settings(name, LOCAL_CONFIG.format(name=name, hub=hub.port) + "[datagrams]\n")
            ring(settings.pki_dir, ours, f"1.{name}")
            locals_.append(await nodes.start_node(settings))
        a, b = locals_
        await linked(a, b)
        await until(lambda: a.sealing is not None and a.sealing.keys.receiver("1.56001") is not None)
        async with Client(url_of(a)) as client:
            await send_samples(client)
            await b.stop()
            kept = await client.send("56001", b"kept by the hub", app_key="trade/order//KEPT")
            # The hub answers the inquiry about its copy; once B is online, there is nothing to inquire about.
            await until(lambda: bool(recorder.found.get("INQUIRIES CONFIRMATION")), 60)
            b = await nodes.start_node(b.settings)
            await linked(b)
            await client.wait_for_delivery(kept.lk0, timeout_s=60)
    return dict(sorted(recorder.found.items()))


async def send_samples(client: Client) -> None:
    """Send a document of each kind, and wait for those with a receipt."""
    kinds: tuple[dict[str, Any], ...] = (
        {}, {"encrypt": True, "app_key": "trade/order/standard/S1"}, {"save_fwd": 2}, {"ack2": False},
        {"order_key": "k", "priority": 7, "content_type": "application/xml", "headers": {"own": ["list", 7, True]}},
        {"order_key": "k", "expires_at": FAR_AWAY, "content_encoding": "gzip", "fixed": True},
    )  # fmt: skip
    for number, options in enumerate(kinds):
        sent = await client.send("56001/erp" if number % 2 else "56001", b"sample %d" % number, **options)
        if options.get("ack2", True):
            await client.wait_for_delivery(sent.lk0, timeout_s=60)
    for _ in range(3):
        await client.send("56001", b"fast", save_fwd=1, reliable=False)


async def record_databases(nodes: InProcess, folder: Path) -> dict[str, list[str]]:
    """Record databases with documents in every place; return their bodies."""
    waiting: list[str] = []
    async with network(nodes) as started:
        a, hub, b = started["10008"], started["hub"], started["56001"]
        async with Client(url_of(a)) as client:
            for number in range(4):
                sent = await client.send("56001", b"in the inbox %d" % number, app_key=f"trade/order//I{number}")
                await client.wait_for_delivery(sent.lk0, timeout_s=60)
            await b.stop()
            for number in range(3):
                waiting.append(f"kept by the hub {number}")
                await client.send("56001", waiting[-1].encode(), order_key="k")
            await until(lambda: in_custody(a) == 3, 60)
            await hub.stop()
            for number in range(3):
                waiting.append(f"not sent {number}")
                await client.send("56001", waiting[-1].encode(), order_key="k", headers={"own": number})
            await client.send("56001", b"scheduled", not_before=FAR_AWAY, app_key="trade/order//LATER")
        await a.stop()
        with psycopg.connect(a.settings.database.dsn or "") as connection:
            connection.execute("SELECT semq_send('56001', 'by SQL', 'trade/order//SQL')")
        waiting.append("by SQL")
        for name, node in started.items():
            subject = backup.BackupSubject(str(node.settings.address), "")
            backup.make(node.settings.database.dsn or "", folder / name, subject, {})
    return {"inbox": [f"in the inbox {number}" for number in range(4)], "waiting": waiting, "scheduled": ["scheduled"]}


def in_custody(node: Any) -> int:
    """Return the number of documents of a node that the hub keeps."""
    with psycopg.connect(node.settings.database.dsn or "") as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM tb_0031 WHERE ss_status = %s", (SendStatus.SS_ACK,))
    return int(count)


def url_of(node: Any) -> str:
    return f"amqp://guest:guest@127.0.0.1:{node.port}"


async def main(folder: Path) -> None:
    """Record everything in an empty folder."""
    with TemporaryDirectory() as temporary, EmbeddedPostgres(Path(temporary) / "pg") as postgres, ExitStack() as stack:
        from semq.store.postgres.migration import upgrade

        await asyncio.to_thread(upgrade, postgres.url_of(DATABASE))

        def new_database() -> str:
            return stack.enter_context(new_database_of(postgres, template=DATABASE))

        for name in ("frames", "databases"):
            (Path(temporary) / name).mkdir()
            async with in_process(Path(temporary) / name, new_database) as nodes:
                if name == "frames":
                    write(folder / "frames.json", await record_frames(nodes))
                else:
                    write(folder / "documents.json", await record_databases(nodes, folder / name))
        extracts, truth = Place.at(folder / "extracts"), Place.at(Path(temporary) / "truth")
        true = generate(extracts, truth, DAY, Calendar(), StandingClock(), 200, nodes=2, defects=60)
        write(folder / "verdicts.json", true.verdicts)


def write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    shutil.rmtree(RECORDED, ignore_errors=True)
    RECORDED.mkdir(parents=True)
    asyncio.run(main(RECORDED))
