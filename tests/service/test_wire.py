"""The bytes of both links, recorded in front of the hub: no text of sealed documents; with TLS, of no document."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256

import pytest

from local_node.node import LocalNode
from tests.pki.people import authority
from tests.pki.people import ring as ring_with
from tests.service.credentials.test_secrecy import SECRET
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, linked
from tests.waiting import until

OURS = authority()
# Forms of the secret that are searched in the recorded bytes
FORMS = [
    SECRET.encode(), SECRET.encode().hex().encode(), b64encode(SECRET.encode()), SECRET[8:24].encode(),
    sha256(SECRET.encode()).digest(), sha256(SECRET.encode()).hexdigest().encode(),
]  # fmt: skip
APP_KEY_PART = "PLANTED-key-4711"


class Tap:
    """A port that forwards to another port and records the bytes of both directions."""

    def __init__(self, target: int) -> None:
        self.recorded = bytearray()
        self._target = target
        self._open: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._open += [writer, target_writer]
        for copy in (self._copy(reader, target_writer), self._copy(target_reader, writer)):
            self._tasks.add(asyncio.create_task(copy))

    async def stop(self) -> None:
        for writer in self._open:
            writer.close()
        await asyncio.gather(*self._tasks)
        for writer in self._open:
            with suppress(OSError):
                await writer.wait_closed()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                self.recorded += data
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def tapped(target: int) -> AsyncIterator[tuple[Tap, int]]:
    tap = Tap(target)
    server = await asyncio.start_server(tap.on_connection, "127.0.0.1", 0)
    yield tap, server.sockets[0].getsockname()[1]
    server.close()
    await tap.stop()


async def send_and_wait(inprocess: InProcess, a: LocalNode, encrypt: bool) -> None:
    admin = await inprocess.client(a)
    document = {"target": "56001", "encrypt": encrypt, "body_base64": b64encode(SECRET.encode()).decode()}
    answer = await ask(admin, "msg.submit", document | {"app_key": f"trade/order//{APP_KEY_PART}"})
    assert answer["ok"], answer

    async def is_delivered() -> bool:
        events = (await ask(admin, "msg.trace", {"id": answer["result"]["lk0"]}))["result"]["events"]
        return any(event["event"] == "DELIVERED" for event in events)

    await until(is_delivered)


@pytest.mark.parametrize("encrypt", [True, False])
async def test_links_in_clear_hide_sealed_documents_only(inprocess: InProcess, encrypt: bool) -> None:
    hub = await inprocess.hub()
    async with tapped(hub.port) as (tap, port):
        nodes = []
        for name in ("10008", "56001"):
            settings = inprocess.settings(name, LOCAL_CONFIG.format(name=name, hub=port))
            ring_with(settings.pki_dir, OURS, f"1.{name}")
            nodes.append(await inprocess.start_node(settings))
        await linked(*nodes)
        a = nodes[0]
        await until(lambda: a.sealing is not None and a.sealing.keys.receiver("1.56001") is not None)
        await send_and_wait(inprocess, a, encrypt)
        assert APP_KEY_PART.encode() in tap.recorded  # the hub needs the attributes in clear
        assert any(form in tap.recorded for form in FORMS) is not encrypt
        assert b"PRIVATE KEY" not in tap.recorded


async def test_tls_hides_documents_in_clear_too(inprocess: InProcess) -> None:
    hub = await inprocess.secure_hub()
    async with tapped(hub.port) as (tap, port):
        nodes = []
        for name in ("10008", "56001"):
            settings = inprocess.secure_settings(name, hub, port=port)
            await inprocess.enrol(settings, hub)
            nodes.append(await inprocess.start_node(settings))
        await linked(*nodes)
        await send_and_wait(inprocess, nodes[0], encrypt=False)
        assert len(tap.recorded) > 5000
        for form in (*FORMS, APP_KEY_PART.encode(), b"1.10008", b"@AppKey", b"AMQP", b"pass-"):
            assert form not in tap.recorded
