"""This version reads what the released version wrote: frames, and databases in use (``record``)."""

import asyncio
import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from semq.amqp.content import ContentHeader
from semq.app import Client
from semq.config import load
from semq.config.settings import Settings
from semq.engine.frames import read_frame, write_frame
from semq.store import backup
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres import schema_version
from semq.store.postgres.migration import upgrade
from semq.umx_t.records import PACKET_BYTES_MAX
from tests.conftest import new_database_of
from tests.service.inprocess import LOCAL_CONFIG, InProcess, linked
from tests.store.postgres.test_migration import functions_in
from tests.versions.record import FAR_AWAY, HUB_OF_BOTH, NODES, facts_of, kind_of, record_frames, url_of
from tests.versions.released import RECORDED
from tests.waiting import until

FRAMES: dict[str, list[dict[str, Any]]] = json.loads((RECORDED / "frames.json").read_text())


def contains(now: Any, then: Any) -> bool:
    """Whether values have all fields of earlier values, with the same contents; further fields are permitted."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(name in now and contains(now[name], value) for name, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(now) == len(then) and all(map(contains, now, then))
    return bool(now == then)


def test_frames_of_every_kind_are_recorded() -> None:
    packets = {f"{function.name} {primitive.name}" for function, primitive in PACKET_BYTES_MAX}
    assert set(FRAMES) == {"DATA clear", "DATA sealed", *packets}


async def test_the_recording_of_this_version_has_the_same_kinds(inprocess: InProcess) -> None:
    assert set(await record_frames(inprocess)) >= set(FRAMES)


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_of_the_released_version_is_read_as_it_was_meant(kind: str) -> None:
    for recorded in FRAMES[kind]:
        sent = b64decode(recorded["body"])
        header = ContentHeader(bytes.fromhex(recorded["header"]), len(sent))
        frame = read_frame(recorded["routing_key"], header, sent)
        assert kind_of(frame) == kind
        assert contains(facts_of(frame), recorded["read"])
        _, again, body = write_frame(frame)
        assert (again.raw, bytes(body)) == (header.raw, sent)  # what is passed on stays as it came


def test_a_field_that_is_lost_or_changed_is_noticed() -> None:
    then = {"lk0": [1, "a"], "records": [{"sid": 4}]}
    assert contains({"lk0": [1, "a"], "records": [{"sid": 4, "new": 1}], "new": 2}, then)
    for now in (
        {"records": [{"sid": 4}]},
        {"lk0": [1, "b"], "records": [{"sid": 4}]},
        {"lk0": [1, "a"], "records": []},
    ):
        assert not contains(now, then)


@pytest.fixture
def restored(postgres: EmbeddedPostgres, inprocess: InProcess, tmp_path: Path) -> Callable[[str, str], Settings]:
    """Return a function that restores a recorded database, and returns the settings of its node."""
    stack = inprocess.stack.enter_context(ExitStack())

    def restore(name: str, text: str) -> Settings:
        url = stack.enter_context(new_database_of(postgres, template="template0"))
        folder = RECORDED / "databases" / name
        backup.restore(url, folder, backup.check(folder), lambda url, role: pytest.fail(role))
        file = tmp_path / f"{name}.toml"
        file.write_text(f'{text}\n[database]\nurl = "{url}"\n')
        return load(file, {})

    return restore


def test_a_database_of_the_released_version_gets_the_functions_and_views_of_this_one(
    restored: Callable[[str, str], Settings], database: str
) -> None:
    """A database whose revision is the newest keeps its functions, so each change of them needs another revision."""
    url = restored("56001", LOCAL_CONFIG.format(name="56001", hub=0)).database.dsn or ""
    upgrade(url)
    with psycopg.connect(url) as upgraded, psycopg.connect(database) as new:
        assert functions_in(upgraded) == functions_in(new)


async def test_nodes_of_this_version_finish_the_documents_in_databases_of_the_released_one(
    inprocess: InProcess, restored: Callable[[str, str], Settings]
) -> None:
    documents: dict[str, list[str]] = json.loads((RECORDED / "documents.json").read_text())
    hub = await inprocess.start_hub(restored("hub", HUB_OF_BOTH))
    nodes = []
    for name in NODES[1:]:
        settings = restored(name, LOCAL_CONFIG.format(name=name, hub=hub.port))
        nodes.append(await inprocess.start_node(settings))
    a, b = nodes
    await linked(a, b)
    received: Counter[str] = Counter()
    async with Client(url_of(b)) as client:
        wanted = documents["inbox"] + documents["waiting"]
        async with client.receive() as arriving:
            async for document in arriving:
                received[bytes(document.payload).decode()] += 1
                await document.ack()
                if len(received) == len(wanted):
                    break
        assert received == Counter(wanted)

    def rows(node: Any, table: str) -> int:
        with psycopg.connect(node.settings.database.dsn) as connection:
            [(count,)] = connection.execute(f"SELECT count(*) FROM {table}".encode())
        return int(count)

    await until(lambda: [rows(each, "tb_0031") for each in (hub, a, b)] == [0, 0, 0], 60)
    await until(lambda: rows(b, "tb_0030") == 0, 60)
    async with Client(url_of(a)) as client:
        [later] = (await client.request("msg.list", {"state": "scheduled"}))["rows"]
        assert later["not_before"] == FAR_AWAY or str(later["not_before"]).startswith("2096")
    for node in (hub, a, b):
        await asyncio.to_thread(schema_version.check, node.settings.database.dsn or "")
