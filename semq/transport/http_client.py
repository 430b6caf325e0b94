"""An HTTP client whose TLS context is made of files (``tls_files``)."""

import ssl
from collections.abc import Callable

import httpx

from semq.transport.tls_files import TlsFiles


class RenewedClient:
    """An ``httpx.AsyncClient`` that is made again when the files of its context have changed."""

    def __init__(self, tls: TlsFiles | None, make: Callable[[ssl.SSLContext | bool], httpx.AsyncClient]) -> None:
        """``tls``: None without TLS. ``make`` returns a client that verifies by the context."""
        self._tls = tls
        self._make = make
        self._context: ssl.SSLContext | bool = tls.current() if tls is not None else False
        self._client = make(self._context)
        self._former: list[httpx.AsyncClient] = []  #: one may still have a request

    async def current(self) -> httpx.AsyncClient:
        """Return the client for a new request."""
        context = self._tls.current() if self._tls is not None else False
        if context is not self._context:
            former, self._former = self._former, [self._client]
            self._context, self._client = context, self._make(context)
            for client in former:
                await client.aclose()
        return self._client

    async def close(self) -> None:
        for client in (*self._former, self._client):
            await client.aclose()
