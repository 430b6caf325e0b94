"""Slow and faulty HTTP clients, and limits of connections."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

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
        assert {answer.split()[1] for answer in await asyncio.gather(*announced, chunked)} == {b"408"}
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


async def test_slow_bodies_of_one_visitor_delay_nobody(node: LocalNode) -> None:
    async with serving(node, memory_bytes=2 << 20, body_s=600) as site:
        honest = await site.program("submit")
        slow_bodies = [asyncio.create_task(answer_by_bytes(site, head)) for head in await slow_heads(site, 32)]
        await until(lambda: len(site.web.memory._owned) == 1 and len(site.server._state.tasks) >= 32)
        answers = [await honest.post("/documents?target=56001", content=bytes(50_000)) for _ in range(20)]
        assert {answer.status_code for answer in answers} == {201}
        assert not any(body.done() for body in slow_bodies)
        for body in slow_bodies:
            body.cancel()
        await until(lambda: site.web.memory._free == site.web.http.memory_bytes)


async def test_bodies_below_the_least_rate_are_ended(node: LocalNode) -> None:
    async with serving(node, body_s=0.3) as site:
        answers = await asyncio.gather(*(answer_by_bytes(site, head) for head in await slow_heads(site, 4)))
        assert {answer.split()[1] for answer in answers} == {b"408"}
        assert json.loads(answers[0].partition(b"\r\n\r\n")[2])["code"] == "SEMQ-1415"
        assert site.web.memory._free == site.web.http.memory_bytes


async def slow_heads(site: Site, number: int) -> list[bytes]:
    """Return heads of submissions and of other operations by one visitor."""
    token = await site.token("submit", "viewer")
    head = f" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    paths = ("/api/v1/documents?target=56001", "/api/v1/msg/list")
    return [f"POST {paths[index % 2]}{head}".encode() for index in range(number)]


async def answer_by_bytes(site: Site, head: bytes) -> bytes:
    """Return the answer to a request whose body comes as one byte every 50 ms, without an end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
    writer.write(head)
    answer = asyncio.create_task(reader.read())
    try:
        while not answer.done():
            with contextlib.suppress(ConnectionError):
                writer.write(b"1\r\n \r\n")
                await writer.drain()
            await asyncio.wait((answer,), timeout=0.05)
        return await answer
    finally:
        answer.cancel()
        writer.close()


async def test_a_body_at_the_least_rate_is_accepted_however_long_it_takes(node: LocalNode) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield bytes(100)
            await asyncio.sleep(0.05)  # the rate of a slow client

    async with serving(node, body_s=0.2, body_bytes_per_s=100) as site:
        program = await site.program("submit")
        assert (await program.post("/documents?target=56001", content=parts())).status_code == 201


async def test_the_rest_of_a_body_that_is_refused_before_its_end_is_not_awaited_long(hub: HubNode) -> None:
    async with serving(hub, head_s=0.2) as site:
        head = b"POST /api/v1/msg/list HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc"
        assert (await answer_to(site, head)).startswith(b"HTTP/1.1 401 ")  # and then the end of the connection


@pytest.mark.parametrize(
    "headers",
    [
        b"Transfer-Encoding: x, chunked\r\n",
        b"Transfer-Encoding: chunked, chunked\r\n",
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: \r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: +5\r\n",
    ],
)
async def test_a_body_that_a_proxy_may_delimit_in_another_way_is_refused(node: LocalNode, headers: bytes) -> None:
    async with serving(node) as site:
        token = await site.token("submit")
        head = f"POST /api/v1/documents?target=56001 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        answer = await answer_to(site, head.encode() + headers + b"\r\n5\r\nabcde\r\n0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400"), answer
        chunked = await answer_to(
            site, head.encode() + b"Transfer-Encoding: Chunked\r\nConnection: close\r\n\r\n1\r\na\r\n0\r\n\r\n"
        )
        assert chunked.startswith(b"HTTP/1.1 201"), chunked
        old = head.replace("1.1", "1.0").encode() + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
        assert (await answer_to(site, old)).startswith(b"HTTP/1.1 400")


async def test_silent_connections_of_some_addresses_do_not_keep_others_out(hub: HubNode) -> None:
    """Five addresses may open more connections than there are places; the longest silent ones lose theirs."""
    async with serving(hub, host="0.0.0.0", max_connections=8, max_connections_per_address=4) as site:
        url = f"http://127.0.0.1:{site.server.port}"
        async with httpx.AsyncClient(base_url=url, verify=False) as kept:
            assert (await kept.get("/livez")).status_code == 200
            writers = []
            for address in range(2, 7):
                for _ in range(4):
                    _, writer = await asyncio.open_connection(
                        "127.0.0.1", site.server.port, local_addr=(f"127.0.0.{address}", 0)
                    )
                    writers.append(writer)
                async with httpx.AsyncClient(verify=False) as honest:
                    assert (await honest.get(f"{url}/livez")).status_code == 200
            assert (await kept.get("/livez")).status_code == 200
            assert site.server.places.displaced >= 12
            assert len(site.server.places) <= 8
            for writer in writers:
                writer.close()


async def test_requests_get_status_503_while_all_connections_are_busy(node: LocalNode) -> None:
    async with serving(node, max_connections=2) as site:
        programs = [await site.program("receive", inbox=f"{site.inbox}-{number}") for number in range(2)]
        polls = [asyncio.create_task(program.post("/inbox/receive?wait_s=60")) for program in programs]
        await until(lambda: len(site.web.polls._waiting) == 2)
        browser = await site.browser()
        refused = await browser.get("/livez")
        assert (refused.status_code, refused.headers["connection"]) == (503, "close")
        for poll in polls:
            poll.cancel()
        await until(lambda: len(site.server.places) < 2)
        assert (await browser.get("/livez")).status_code == 200


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
