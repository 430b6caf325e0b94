"""The proxy causes every fault that ``LinkFaults`` and its own methods describe; crash campaigns rely on this."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.crash.proxy import Proxy

TEXT = bytes(range(256)) * 200


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """A proxy in front of an echo server."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(4096):
                writer.write(chunk)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = Proxy()
    await proxy.start()
    proxy.target = ("127.0.0.1", server.sockets[0].getsockname()[1])
    yield proxy
    await proxy.stop()
    server.close()


async def dial(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    data = b""
    try:
        while chunk := await reader.read(4096):
            data += chunk
    except ConnectionError:
        pass
    return data


async def test_without_faults_all_bytes_pass(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    writer.write(TEXT)
    assert await reader.readexactly(len(TEXT)) == TEXT
    writer.write_eof()
    assert await read_to_end(reader) == b""
    writer.close()


@pytest.mark.parametrize("faults", [{"write_bytes_max": 7}, {"delay_s": 0.001}, {"bytes_per_s": 1e7}])
async def test_delays_and_small_parts_lose_no_bytes(proxy: Proxy, faults: dict[str, float]) -> None:
    proxy.change(**faults)
    reader, writer = await dial(proxy)
    writer.write(TEXT[:3000])
    assert await reader.readexactly(3000) == TEXT[:3000]
    writer.close()


async def test_a_cut_ends_the_connection(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    writer.write(b"x")
    await reader.readexactly(1)
    proxy.cut()
    assert await read_to_end(reader) == b""
    writer.close()


async def test_a_cut_after_some_bytes_lets_no_more_of_them_pass(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    writer.write(b"x")
    await reader.readexactly(1)
    proxy.cut_after(150)  # both directions count together
    writer.write(TEXT[:100])
    assert len(await read_to_end(reader)) <= 50
    writer.close()


async def test_a_silent_direction_delivers_its_bytes_later(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    proxy.change(is_silent_to_dialler=True)
    writer.write(b"hello")
    waiting = asyncio.create_task(reader.readexactly(5))
    assert proxy.target is not None
    for _ in range(3):  # meanwhile the answer reaches the proxy
        other_reader, other_writer = await asyncio.open_connection(*proxy.target)
        other_writer.write(b"x")
        assert await other_reader.readexactly(1) == b"x"
        other_writer.close()
    proxy.change(is_silent_to_server=True)
    assert not waiting.done()
    proxy.clear()
    assert await waiting == b"hello"
    writer.close()


async def test_a_refusing_proxy_resets_new_connections(proxy: Proxy) -> None:
    proxy.change(is_refusing=True)
    reader, writer = await dial(proxy)
    assert await read_to_end(reader) == b""
    proxy.clear()
    proxy.target = None
    other_reader, other_writer = await dial(proxy)
    assert await read_to_end(other_reader) == b""
    for end in (writer, other_writer):
        end.close()


async def test_half_open_ends_the_dialling_side_only(proxy: Proxy) -> None:
    reader, writer = await dial(proxy)
    writer.write(b"x")
    await reader.readexactly(1)
    (pair,) = proxy._open
    proxy.half_open()
    assert await read_to_end(reader) == b""
    assert not pair.ended.is_set()
    proxy.cut()
    await pair.copying_ended.wait()
    writer.close()
