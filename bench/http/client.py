"""An HTTP client that needs little processor time: one connection, one request at a time."""

import asyncio
from typing import Self


class HttpConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = head

    @classmethod
    async def open(cls, host: str, port: int, **headers: str) -> Self:
        """Connect. ``headers`` are sent with each request; an underscore in a name stands for a hyphen."""
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        return cls(reader, writer, f"Host: {host}:{port}\r\n{lines}")

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request; return status and body of the answer."""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        status = int(lines[0].split()[1])
        if headers.get("transfer-encoding") == "chunked":
            return status, await self._chunks()
        return status, await self._reader.readexactly(int(headers.get("content-length", "0")))

    async def _chunks(self) -> bytes:
        parts = []
        while size := int(await self._reader.readline(), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readline()
        await self._reader.readline()
        return b"".join(parts)

    def close(self) -> None:
        self._writer.close()
