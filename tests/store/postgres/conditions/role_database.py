"""A database that belongs to a role without further rights, and a node on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from psycopg import conninfo

from local_node.node import LocalNode
from semq.cli.checkup import database as checkup
from semq.clock import SystemClock
from semq.config import load
from semq.config.settings import Settings

CONFIG = """
[node]
kind = "local"
id = "10008"
data_dir = "data"
[amqp]
port = 0
[hub]
url = "amqp://127.0.0.1:1"
password = "no hub is needed here"
[database]
url = "{url}"
"""


class RoleDatabase:
    """An empty database that belongs to a role without further rights, and the folder of its node."""

    def __init__(self, superuser_url: str, role: str, folder: Path) -> None:
        self.superuser_url, self.role, self.folder = superuser_url, role, folder
        self.name = str(conninfo.conninfo_to_dict(superuser_url)["dbname"])
        self.url = conninfo.make_conninfo(superuser_url, user=role, password="secret")

    def run(self, *statements: str) -> None:
        """Run statements as the superuser; {role} and {name} are the role and the database."""
        with psycopg.connect(self.superuser_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.format(role=self.role, name=self.name).encode())

    def settings(self) -> Settings:
        file = self.folder / "node.toml"
        facts = conninfo.conninfo_to_dict(self.url)
        address = f"postgresql://{self.role}:secret@/{self.name}?host={facts['host']}&port={facts['port']}"
        file.write_text(CONFIG.format(url=address))
        return load(file, {})


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[LocalNode]:
    node = LocalNode(settings, SystemClock())
    try:
        await node.start()
        yield node
    finally:
        await node.stop()


async def start_and_stop(settings: Settings) -> None:
    async with running(settings):
        pass


def doctor(settings: Settings) -> str:
    """Return the faults that ``semq doctor`` finds in the database."""
    found = [finding for finding in checkup.check(settings) if finding.verdict != "ok"]
    return "; ".join(f"{finding.detail} — {finding.advice}" for finding in found)


async def health(node: LocalNode) -> str:
    return "; ".join(check.detail for check in await node.checks() if check.name == "database")


async def note_in_chinese(node: LocalNode) -> str:
    """Note a text in the ledger by the writer, and read it by a reader."""
    from semq.engine.core import note_lines
    from semq.store.rows import Event, LedgerLine, Side

    done = asyncio.Event()
    line = LedgerLine(node.engine.core.now_ms(), Side.SENDER, Event.OPERATOR, "", "1.56001", detail="订单")
    node.store.post(note_lines([line], done.set))
    async with asyncio.timeout(20):
        await done.wait()
    return str(await node.store.execute(_last_detail))


def _last_detail(connection: object) -> str:
    from sqlalchemy import Connection, text

    assert isinstance(connection, Connection)
    return str(connection.execute(text("SELECT detail FROM semq_ledger ORDER BY number DESC LIMIT 1")).scalar_one())
