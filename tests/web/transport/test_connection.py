"""Slow and faulty HTTP clients, and limits of connections."""

import asyncio
import contextlib
import json

import httpx
import pytest

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.web.errors import BadRequest
from semq.web.transport.connection import HEAD_MAX
from tests.waiting import until
from tests.web.running import Site, serving

PATIENCE_S = 60


async def answer_to(site: Site, *pieces: bytes) -> bytes:
    """Return the bytes that the server sends before it disconnects; empty if it only disconnects."""
    host, port = site.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        async with asyncio.timeout(PATIENCE_S):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("head", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
async def test_a_client_with_an_incomplete_head_is_disconnected(hub: HubNode, head: bytes) -> None:
    async with serving(hub, head_s=0.2) as site:
        assert await answer_to(site, head) == b""
        assert (await (await site.browser()).get("/sign-in")).status_code == 200


async def test_line_ends_between_requests_do_not_keep_a_connection_open(hub: HubNode) -> None:
    async with serving(hub, head_s=0.2) as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.readuntil(b"ok\n")
        await until(
            lambda: all(
                getattr(connection, "timeout_keep_alive_task", None) for connection in site.server._state.connections
            )
        )
        writer.write(b"\r\n")  # these bytes stop uvicorn's own timer for idle connections
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()


async def test_a_head_without_end_is_refused(hub: HubNode) -> None:
    async with serving(hub) as site:
        pieces = [b"GET / HTTP/1.1\r\nX: ", *[b"a" * 16_384] * (HEAD_MAX // 16_384 + 2)]
        answer = await answer_to(site, *pieces)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "headers",
    [
        b"Host: localhost\r\nX: " + b"a" * HEAD_MAX + b"\r\n",  # complete, and sent in one piece
        b"",
        b"Host: localhost\r\nHost: b\r\n",
    ],
)
async def test_a_head_that_is_too_large_or_does_not_name_one_host_is_refused(hub: HubNode, headers: bytes) -> None:
    async with serving(hub) as site:
        answer = await answer_to(site, b"GET /livez HTTP/1.1\r\nConnection: close\r\n" + headers + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 400")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert json.loads(body)["code"] == BadRequest.code
        assert {b"content-type: application/problem+json", b"x-content-type-options: nosniff"} <= {*head.split(b"\r\n")}
        good = await answer_to(site, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert good.startswith(b"HTTP/1.1 200")
        probe = await answer_to(site, b"GET /livez HTTP/1.0\r\n\r\n")  # HTTP/1.0 does not need the header Host
        assert b" 200 " in probe.split(b"\r\n")[0]


async def test_a_client_that_pauses_in_a_body_is_disconnected_and_its_memory_freed(node: LocalNode) -> None:
    async with serving(node, body_s=0.3) as site:
        program = await site.program("submit")
        token = program.headers["authorization"]
        head = f"POST /api/v1/documents?target=56001 HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n".encode()
        announced = [answer_to(site, head + b"Content-Length: 100000\r\n\r\nabc") for _ in range(5)]
        chunked = answer_to(site, head + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        assert all(answer == b"" or b" 400 " in answer for answer in await asyncio.gather(*announced, chunked))
        assert (await program.post("/documents?target=56001", content=b"x")).status_code == 201
        assert site.web.memory._free == site.web.http.memory_bytes


async def test_a_client_that_does_not_read_is_disconnected(hub: HubNode) -> None:
    async with serving(hub, body_s=0.3) as site:
        request = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        host, port = site.url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(200):  # more than the buffers of both sockets can hold
            writer.write(request)
        await until(lambda: not site.server._state.connections)
        writer.transport.abort()


async def test_requests_on_connections_beyond_the_limit_get_status_503(hub: HubNode) -> None:
    async with serving(hub, max_connections=2) as site:
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(httpx.AsyncClient(base_url=site.url, verify=False)) for _ in range(3)
            ]
            statuses = [(await client.get("/sign-in")).status_code for client in clients]
        assert statuses[0] == 200
        assert statuses[2] == 503
        assert (await (await site.browser()).get("/sign-in")).status_code in (200, 503)


@pytest.mark.parametrize(
    "request_", [b"\0\1\2\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /\xff HTTP/1.1\r\nA: b\r\n\r\n"]
)
async def test_input_that_is_not_http_is_refused(hub: HubNode, request_: bytes) -> None:
    async with serving(hub, head_s=1.0) as site:
        answer = await answer_to(site, request_)
        assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 303"))
        assert (await (await site.browser()).get("/sign-in")).status_code == 200


async def test_the_number_of_connections_from_an_address_is_limited(hub: HubNode) -> None:
    async with serving(hub, max_connections_per_address=2) as site:
        port = site.server.port
        first, second = [await asyncio.open_connection("127.0.0.1", port) for _ in "12"]
        await until(lambda: len(site.server._state.connections) == 2)
        assert await answer_to(site, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        first[1].close()
        await until(lambda: len(site.server._state.connections) == 1)
        answer = await answer_to(site, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.endswith(b"ok\n")
        second[1].close()
