"""One address: the check of allowed hosts, the request, and the circuit breaker for an address that fails.

The host is resolved for each request, all its addresses are checked, and the connection goes to a checked address, so
that the name cannot resolve differently between check and use. Redirects are not followed and cookies are not stored.
Only the status line counts as the answer; a slow or endless body has no effect.
"""

import asyncio
import logging
import math
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

import httpx

from semq.clock import Clock
from semq.config.sections import WebhookSection
from semq.errors import SemqError
from semq.seal.webhook_signature import key_of, signature_headers
from semq.service.companion.section_states import SectionStates
from semq.transport.spool import SpooledBody
from semq.umx_t import retry
from semq.webhooks.errors import AddressNotAllowed, NoAnswerFromWebhook, RefusedByWebhook, WebhookTrustUnreadable
from semq.webhooks.messages import WebhookRequest

ANSWER_MAX = 1024  # bytes of an answer that are kept as a reason
OPEN_AFTER = 5  # consecutive failures after which requests are sent one at a time, with pauses
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 60.0
WAIT_S_MAX = 300.0  # longest pause that is accepted from Retry-After
BODY_S = 2.0  # longest wait for the body of an answer
NAT64, IPV4_COMPATIBLE = IPv6Network("64:ff9b::/96"), IPv6Network("::/96")  # the last 32 bits are an IPv4 address
GATEWAY = {502, 503, 504}  # the application behind the address is not available
LATER = {408, 409, 425, 429}  # client errors after which another attempt may succeed


class Webhook:
    """One webhook."""

    def __init__(self, settings: WebhookSection, clock: Clock, states: SectionStates) -> None:
        self._settings = settings
        self._clock = clock
        self._states = states
        self._key = key_of(settings.secret.get_secret_value())
        self._parts = urlsplit(settings.url)
        for name in ("httpx", "httpcore"):  # they log each address, whose query may hold a key, and headers
            logging.getLogger(name).setLevel(logging.WARNING)
        self._client = httpx.AsyncClient(
            verify=_trusting(settings),
            timeout=settings.timeout_s,
            limits=httpx.Limits(max_connections=settings.concurrency + 1),  # one for events
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            trust_env=False,
        )
        self._alone = asyncio.Lock()
        self._not_before = 0.0  #: monotonic seconds, while the circuit is open
        self._asked_for = 0.0  #: monotonic seconds: the end of the pause that the address asked for by Retry-After
        self._failed_at = -math.inf  #: monotonic seconds, the last time
        self._pauses = 0  #: in a row, each longer than the one before
        self.failures = 0  #: in a row
        self.successes = 0

    async def close(self) -> None:
        """End the connections."""
        await self._client.aclose()

    async def post(self, request: WebhookRequest) -> None:
        """Post a request and return when it was answered 2xx.

        Raises RefusedByWebhook, NoAnswerFromWebhook, AddressNotAllowed.
        """
        async with self._turn():
            begun = self._clock.monotonic()
            try:
                async with asyncio.timeout(self._settings.timeout_s) as limit:
                    status, reason, wait_s = await self._posted(request, limit)
            except TimeoutError as error:
                raise self._failed(begun, f"no answer within {self._settings.timeout_s:g} s") from error
            except AddressNotAllowed as error:
                self._fail(begun, error)
                raise
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
                raise self._failed(begun, f"{type(error).__name__}: {error}") from error
            if 200 <= status < 300:
                self._succeed("acknowledged")
            elif 400 <= status < 500 and status not in LATER:
                self._succeed("refused")  # the address works, but this request fails
                raise RefusedByWebhook(status=status, answer=reason)
            else:
                fault = self._failed(begun, f"status {status}: {reason}", wait_s)
                fault.is_about_request = status not in (*GATEWAY, 429) and not wait_s
                raise fault

    def _succeed(self, outcome: str) -> None:
        self.failures, self.successes, self._pauses = 0, self.successes + 1, 0
        self._states.count(self._settings.name, outcome)
        self._states.succeeded(self._settings.name)

    def _failed(self, begun: float, fault: str, wait_s: float = 0.0) -> NoAnswerFromWebhook:
        error = NoAnswerFromWebhook(fault=fault, failures=self.failures + 1)
        self._fail(begun, error, wait_s)
        return error

    def _fail(self, begun: float, error: SemqError, wait_s: float = 0.0) -> None:
        """Count a failure, and set the pause after it: ``wait_s`` if the address asked for more.

        The pause grows once for all requests that were under way together: together they show one failure.
        """
        self.failures += 1
        self._states.count(self._settings.name, "failed")
        now = self._clock.monotonic()
        if begun >= self._failed_at:
            self._pauses += 1
        self._failed_at = now
        pause_s = retry.backoff(self._pauses, PAUSE_S_MIN, PAUSE_S_MAX, self._clock.random())
        self._asked_for = max(self._asked_for, now + min(wait_s, WAIT_S_MAX))
        self._not_before = max(now + pause_s, self._asked_for)
        self._states.failed(self._settings.name, error, is_paused=self.failures >= OPEN_AFTER)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait while the circuit is open; then one request at a time tries whether the address works again."""
        if self.failures < OPEN_AFTER and self._clock.monotonic() >= self._asked_for:
            yield
            return
        async with self._alone:
            until = self._not_before if self.failures >= OPEN_AFTER else self._asked_for
            await asyncio.sleep(max(until - self._clock.monotonic(), 0.0))
            yield

    async def _posted(self, request: WebhookRequest, limit: asyncio.Timeout) -> tuple[int, str, float]:
        """Return the status, the beginning of the answer, and the seconds of Retry-After."""
        *others, last = await self._addresses()
        for address in others:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # nothing was sent: the next may listen
                return await self._posted_to(address, request, limit)
        return await self._posted_to(last, request, limit)

    async def _posted_to(
        self, address: IPv4Address | IPv6Address, request: WebhookRequest, limit: asyncio.Timeout
    ) -> tuple[int, str, float]:
        host, port = self._parts.hostname or "", self._parts.port
        at = f"[{address}]" if address.version == 6 else str(address)
        url = self._parts._replace(netloc=f"{at}:{port}" if port else at).geturl()
        timestamp = int(self._clock.wall().timestamp())
        headers = {
            **request.headers,
            **await self._signed(request, timestamp, limit),
            "host": self._parts.netloc.rpartition("@")[2],
            "user-agent": "semq",
            "accept-encoding": "identity",
        }
        extensions = {"sni_hostname": host}
        content = self._sent(request.body, limit)
        stream = self._client.stream("POST", url, content=content, headers=headers, extensions=extensions)
        async with stream as answer:
            limit.reschedule(None)  # it has answered in time
            body = b""
            with suppress(TimeoutError, httpx.HTTPError):
                async with asyncio.timeout(BODY_S):
                    async for piece in answer.aiter_raw():
                        body += piece
                        if len(body) >= ANSWER_MAX:
                            break
            wait_s = _seconds(answer.headers.get("retry-after", ""), self._clock.wall())
            return answer.status_code, body[:ANSWER_MAX].decode("utf-8", "replace"), wait_s

    async def _signed(self, request: WebhookRequest, timestamp: int, limit: asyncio.Timeout) -> dict[str, str]:
        if isinstance(request.body, bytes):
            return signature_headers(self._key, request.id, timestamp, (request.body,))
        limit.reschedule(None)  # reading the file takes its time, and is not the address's
        return await asyncio.to_thread(signature_headers, self._key, request.id, timestamp, request.body.blocks())

    def _sent(self, body: bytes | SpooledBody, limit: asyncio.Timeout) -> bytes | AsyncIterator[bytes]:
        return body if isinstance(body, bytes) else self._in_blocks(body, limit)

    async def _in_blocks(self, body: SpooledBody, limit: asyncio.Timeout) -> AsyncIterator[bytes]:
        """Yield a large body; the time limit begins again with each block that the address has taken."""
        for block in body.blocks():
            limit.reschedule(asyncio.get_running_loop().time() + self._settings.timeout_s)
            yield block

    async def _addresses(self) -> list[IPv4Address | IPv6Address]:
        """Return the addresses of the host. Raises AddressNotAllowed, OSError."""
        host = self._parts.hostname or ""
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        addresses = [ip_address(str(one[4][0]).partition("%")[0]) for one in found]
        if not self._settings.allow_private:
            for address in addresses:
                if not _is_public(address):
                    raise AddressNotAllowed(host=host, address=str(address))
        return addresses


def _trusting(settings: WebhookSection) -> ssl.SSLContext:
    """Return the TLS settings of an address. Raises TrustUnreadable."""
    try:
        return ssl.create_default_context(cafile=str(settings.trust) if settings.trust else None)
    except OSError as error:
        raise WebhookTrustUnreadable(webhook=settings.name, trust=str(settings.trust), fault=error.strerror) from error


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address belongs to the public Internet; an IPv4 address embedded in an IPv6 address is checked as
    IPv4.
    """
    if isinstance(address, IPv6Address):
        if address in NAT64 or address in IPV4_COMPATIBLE:
            return _is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return _is_public(inner)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast


def _seconds(text: str, now: datetime) -> float:
    """Return the seconds of Retry-After, given as a number or as a date."""
    try:
        return max(float(text), 0.0) if text.replace(".", "").isdecimal() else _seconds_until(text, now)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _seconds_until(text: str, now: datetime) -> float:
    return max((parsedate_to_datetime(text).astimezone(UTC) - now).total_seconds(), 0.0)
