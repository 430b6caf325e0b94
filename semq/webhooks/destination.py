"""One address: where requests may go, how one is made, and the circuit breaker that spares an address in trouble.

The host is resolved for each connection, every address of it is checked, and the connection goes to an address that
was checked: a name cannot change its meaning between check and use. Redirects are not followed.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

import httpx

from semq.clock import Clock
from semq.config.sections import Webhook
from semq.seal.webhook_signature import key_of, signed
from semq.umx_t import retry
from semq.webhooks.errors import AddressNotAllowed, NoAnswerFromWebhook, RefusedByWebhook
from semq.webhooks.messages import Request

ANSWER_MAX = 1024  # bytes of an answer that are kept as a reason
OPEN_AFTER = 5  # failures in a row, then requests go one at a time and with pauses
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 60.0
WAIT_S_MAX = 300.0  # that Retry-After may ask for
LATER = {408, 409, 425, 429}  # client errors that another try may end otherwise


class Destination:
    """One webhook."""

    def __init__(self, settings: Webhook, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._key = key_of(settings.secret.get_secret_value())
        self._parts = urlsplit(settings.url)
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context(cafile=str(settings.trust) if settings.trust else None),
            timeout=settings.timeout_s,
            limits=httpx.Limits(max_connections=settings.concurrency, max_keepalive_connections=settings.concurrency),
            trust_env=False,
        )
        self._alone = asyncio.Lock()
        self._not_before = 0.0
        self.failures = 0  #: in a row
        self.successes = 0

    async def close(self) -> None:
        """End the connections."""
        await self._client.aclose()

    async def post(self, request: Request) -> None:
        """Post a request and return when it was answered 2xx.

        Raises RefusedByWebhook, NoAnswerFromWebhook, AddressNotAllowed.
        """
        async with self._turn():
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    status, reason, wait_s = await self._posted(request)
            except TimeoutError as error:
                raise self._failed(f"no answer within {self._settings.timeout_s:g} s") from error
            except AddressNotAllowed:
                self._failed("")
                raise
            except (httpx.HTTPError, OSError, ssl.SSLError) as error:
                raise self._failed(f"{type(error).__name__}: {error}") from error
            if 200 <= status < 300:
                self.failures, self.successes = 0, self.successes + 1
            elif 400 <= status < 500 and status not in LATER:
                self.failures, self.successes = 0, self.successes + 1  # the address works, this request does not
                raise RefusedByWebhook(status=status, answer=reason)
            else:
                raise self._failed(f"status {status}: {reason}", wait_s)

    def _failed(self, fault: str, wait_s: float = 0.0) -> NoAnswerFromWebhook:
        self.failures += 1
        pause_s = retry.backoff(self.failures, PAUSE_S_MIN, PAUSE_S_MAX, self._clock.random())
        self._not_before = self._clock.monotonic() + max(pause_s, min(wait_s, WAIT_S_MAX))
        return NoAnswerFromWebhook(fault=fault, failures=self.failures)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait while the circuit is open; then one request at a time tries whether the address works again."""
        if self.failures < OPEN_AFTER:
            yield
            return
        async with self._alone:
            await asyncio.sleep(max(self._not_before - self._clock.monotonic(), 0.0))
            yield

    async def _posted(self, request: Request) -> tuple[int, str, float]:
        """Return the status, the beginning of the answer, and the seconds of Retry-After."""
        address = await self._address()
        host, port = self._parts.hostname or "", self._parts.port
        at = f"[{address}]" if address.version == 6 else str(address)
        url = self._parts._replace(netloc=f"{at}:{port}" if port else at).geturl()
        timestamp = int(self._clock.wall().timestamp())
        headers = {
            **request.headers,
            **signed(self._key, request.id, timestamp, request.body),
            "host": self._parts.netloc.rpartition("@")[2],
            "user-agent": "semq",
        }
        extensions = {"sni_hostname": host}
        stream = self._client.stream("POST", url, content=request.body, headers=headers, extensions=extensions)
        async with stream as answer:
            said = b""
            async for piece in answer.aiter_raw(ANSWER_MAX):
                said += piece
                if len(said) >= ANSWER_MAX:
                    break
            return answer.status_code, said[:ANSWER_MAX].decode("utf-8", "replace"), _seconds(answer.headers)

    async def _address(self) -> IPv4Address | IPv6Address:
        """Return an address of the host. Raises AddressNotAllowed, OSError."""
        host = self._parts.hostname or ""
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        addresses = [ip_address(str(one[4][0]).partition("%")[0]) for one in found]
        if not self._settings.allow_private:
            for address in addresses:
                if not address.is_global:
                    raise AddressNotAllowed(host=host, address=str(address))
        return addresses[0]


def _seconds(headers: httpx.Headers) -> float:
    try:
        return max(float(headers.get("retry-after", "0")), 0.0)
    except ValueError:  # a date: our own pause will do
        return 0.0
