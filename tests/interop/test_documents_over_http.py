"""A large document over HTTP through real processes: bounded memory, and one document despite kills.

``./run python -m tests.interop.test_documents_over_http 1024`` sends this number of MiB.
"""

import asyncio
import hashlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import psycopg

from semq.clock import SystemClock
from semq.installation.configuration import ApplicationLogin, InstallationPlan, free_ports
from semq.installation.process import NodeProcess
from semq.service.operations.tokens import new_token
from semq.store.accounts import add_token
from semq.web.node.database import Database
from tests.interop.test_large_bodies import MIB, peak_mib
from tests.waiting import until

SIZE_MIB = 48
GROWTH_MIB = 24  # limit for the growth of each process: half of the body
PIECES = "SELECT count(*) FROM tb_0031_piece"
KEY = {"Idempotency-Key": "K1"}
RAW = {"accept": "application/octet-stream"}


class PartedBody:
    """A body made in parts of one MiB."""

    def __init__(self, size_mib: int) -> None:
        self.size_mib = size_mib
        self.last_read = 0  #: number of the last part that was read, from 0
        self.digest = hashlib.sha256(b"".join(map(self.part, range(size_mib)))).hexdigest()

    @staticmethod
    def part(number: int) -> bytes:
        return hashlib.shake_128(b"%d" % number).digest(MIB)

    async def parts(self) -> AsyncIterator[bytes]:
        for number in range(self.size_mib):
            self.last_read = number
            yield self.part(number)


class WebNode:
    """A node with a web process, and a program with a token."""

    def __init__(self, node: NodeProcess, port: int) -> None:
        self.node = node
        self.port = port
        self.peaks: dict[int, int] = {}  #: peak memory after the start in MiB, by process id
        self._token = ""

    async def start(self, spool: Path) -> None:
        """Start the node. ``spool``: its folder for temporary files."""
        self.node.launch(TMPDIR=str(spool))
        await asyncio.to_thread(self.node.ensure_ready)
        if not self._token:
            token, self._token = new_token("erp", ["submit", "receive"], "test", SystemClock())
            database = Database(lambda: self.node.database)
            await database.write(add_token, token)
            database.close()
        await self.until_served()

    async def until_served(self) -> None:
        """Wait until the web process serves; note the peak memory of both processes."""
        await until(self._answers)
        self.peaks = {pid: peak_mib(pid) for pid in (self.node.pid or 0, self.web_pid)}

    async def _answers(self) -> bool:
        try:
            async with self.program() as program:
                return (await program.get("/who")).status_code == 200
        except httpx.TransportError:
            return False

    @property
    def web_pid(self) -> int:
        children = Path(f"/proc/{self.node.pid}/task/{self.node.pid}/children").read_text().split()
        return next(int(pid) for pid in children if b"semq.web" in Path(f"/proc/{pid}/cmdline").read_bytes())

    def program(self) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self._token}"}
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}/api/v1", headers=headers, timeout=600, verify=False
        )

    def pieces(self) -> int:
        with psycopg.connect(self.node.database) as connection:
            return int(connection.execute(PIECES.encode()).fetchone()[0])  # type: ignore[index]


async def submit(web: WebNode, body: PartedBody) -> httpx.Response:
    async with web.program() as program:
        return await program.post("/documents?target=10008", content=body.parts(), headers=KEY)


async def until_failed(submitting: asyncio.Task[httpx.Response]) -> None:
    """Wait for a submission that must fail: without an answer, or with status 503 or 504."""
    try:
        answer = await submitting
    except httpx.TransportError:
        return
    assert answer.status_code in (503, 504), answer.text


async def send_with_kills(folder: Path, size_mib: int) -> str:
    """Send a document, with kills during the upload; receive it; return a line about memory."""
    (port,) = free_ports(1)
    local = {"http.port": port}
    spool = folder / "spool"
    spool.mkdir()
    plan = InstallationPlan({"a": "10008"}, ApplicationLogin("app", "secret"), local_rows=local)
    places = plan.write(folder)
    hub, node = (NodeProcess(places[name]) for name in ("hub", "a"))
    web, body = WebNode(node, port), PartedBody(size_mib)
    try:
        await asyncio.to_thread(hub.start)
        await web.start(spool)
        submitting = asyncio.create_task(submit(web, body))
        await until(lambda: body.last_read > size_mib // 2)
        os.kill(web.web_pid, signal.SIGKILL)
        await until_failed(submitting)
        assert (web.pieces(), list(spool.iterdir())) == (0, [])
        await web.until_served()

        submitting = asyncio.create_task(submit(web, body))
        await until(lambda: web.pieces() > 20)
        await asyncio.to_thread(node.end, signal.SIGKILL)
        await until_failed(submitting)
        await web.start(spool)

        answers = [(await submit(web, body)).json() for _ in range(2)]
        assert [answer["digest"] for answer in answers] == [body.digest] * 2, answers
        assert [answer["repeated"] for answer in answers] == [False, True]
        assert answers[0]["lk0"] == answers[1]["lk0"]
        await receive_twice(web, body)
        growth_mib = {pid: peak_mib(pid) - before for pid, before in web.peaks.items()}
        assert max(growth_mib.values()) < GROWTH_MIB, growth_mib
        assert not list(spool.iterdir())
        return f"{size_mib} MiB sent and received: node and web process have grown by {list(growth_mib.values())} MiB"
    finally:
        for process in (node, hub):
            await asyncio.to_thread(process.end_with_database)


async def receive_twice(web: WebNode, body: PartedBody) -> None:
    """Receive the document by a reader that stops in the middle, then completely; after the ack nothing is left."""
    async with web.program() as program:
        digest, size, lease = hashlib.sha256(), 0, ""
        for is_whole in (False, True):
            async with _receive(program) as answer:
                assert answer.status_code == 200
                lease = answer.headers["semq-lease"]
                async for part in answer.aiter_bytes():
                    if not is_whole:
                        break
                    digest.update(part)
                    size += len(part)
        assert (size, digest.hexdigest()) == (body.size_mib * MIB, body.digest)
        assert (await program.post(f"/inbox/leases/{lease}/ack")).status_code == 204
        assert (await program.post("/inbox/receive?wait_s=1", headers=RAW)).status_code == 204


def _receive(program: httpx.AsyncClient) -> AbstractAsyncContextManager[httpx.Response]:
    return program.stream("POST", "/inbox/receive?wait_s=60&lease_s=1", headers=RAW)


async def test_a_large_document_costs_little_memory_and_arrives_once_despite_kills(tmp_path: Path) -> None:
    print(await send_with_kills(tmp_path, SIZE_MIB))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        print(asyncio.run(send_with_kills(Path(name), int(sys.argv[1]))))
