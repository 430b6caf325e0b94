"""The address of one webhook: the check of its host, the request, and the circuit breaker.

Each request connects to an IP address that it has resolved and checked itself, so that the name cannot resolve to
another address after the check. Redirects are not followed and cookies are not stored.
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
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

import httpx

from semq.clock import Clock
from semq.config.sections import WebhookSection
from semq.errors import SemqError
from semq.seal.webhook_signature import key_of, signature_headers
from semq.service.companion.section_states import SectionStates
from semq.transport.http_client import RenewedClient
from semq.transport.spool import SpooledBody
from semq.transport.tls_files import TlsFiles, no_passphrase
from semq.umx_t import retry
from semq.webhooks.errors import AddressNotAllowed, NoAnswerFromWebhook, RefusedByWebhook, WebhookTrustUnreadable
from semq.webhooks.messages import WebhookRequest

ANSWER_MAX = 1024  # bytes of an answer kept as a reason
OPEN_AFTER = 5  # consecutive failures, or refusals, after which requests go one at a time, with pauses (circuit open)
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 60.0  # while the circuit is open
RETRY_AFTER_S_MAX = 300.0  # longest pause accepted from Retry-After
BODY_S = 2.0  # longest wait for the body of an answer
NAT64, IPV4_COMPATIBLE = IPv6Network("64:ff9b::/96"), IPv6Network("::/96")  # the last 32 bits are an IPv4 address
GATEWAY_ERRORS = {502, 503, 504}  # statuses: the application is not available
RETRIABLE = {408, 409, 425, 429}  # client errors after which another attempt may succeed
OF_ADDRESS = {401, 403, 404, 405, 407, 421}  # client errors that concern address or credentials, not a document


class Webhook:
    """The address of one webhook, and its state."""

    def __init__(self, settings: WebhookSection, clock: Clock, states: SectionStates) -> None:
        self._settings = settings
        self._clock = clock
        self._states = states
        secrets = (settings.secret, *([settings.next_secret] if settings.next_secret is not None else []))
        self._keys = [key_of(secret.get_secret_value()) for secret in secrets]
        self._more_headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        self._parts = urlsplit(settings.url)
        for name in ("httpx", "httpcore"):  # they log headers and URLs, which may contain keys
            logging.getLogger(name).setLevel(logging.WARNING)
        proxy = httpx.Proxy(settings.proxy.get_secret_value()) if settings.proxy is not None else None
        tls = TlsFiles((settings.trust, settings.certificate, settings.key), partial(_tls_context, settings))
        self._client = RenewedClient(
            tls,
            lambda context: httpx.AsyncClient(
                verify=context,
                timeout=settings.timeout_s,
                limits=httpx.Limits(max_connections=2 * settings.concurrency),  # documents and events
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                trust_env=False,
                proxy=proxy,
            ),
        )
        self._probe_lock = asyncio.Lock()
        # Monotonic seconds: ends of the pauses of the circuit and of Retry-After; the latest failure.
        self._paused_until = 0.0
        self._retry_after = 0.0
        self._failed_at = -math.inf
        self._pauses = 0  #: number of consecutive pauses
        self.failures = 0  #: number of consecutive failures
        self.refusals = 0  #: number of documents refused since the last one that was accepted
        self.successes = 0  #: number of requests that the address accepted or refused

    async def close(self) -> None:
        await self._client.close()

    async def post(self, request: WebhookRequest) -> None:
        """Post a request, and return if the address accepts it (status 200 to 299).

        Raises RefusedByWebhook, NoAnswerFromWebhook, AddressNotAllowed.
        """
        async with self._after_pause():
            began_at = self._clock.monotonic()
            try:
                async with asyncio.timeout(self._settings.timeout_s) as limit:
                    status, reason, retry_after_s = await self._send(request, limit)
            except TimeoutError as error:
                raise self._failure(began_at, f"no answer within {self._settings.timeout_s:g} s") from error
            except AddressNotAllowed as error:
                self._count_failure(began_at, error)
                raise
            except httpx.LocalProtocolError as error:
                raise RefusedByWebhook("HTTP cannot express the request.", fault=str(error)) from error
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
                raise self._failure(began_at, f"{type(error).__name__}: {error}") from error
            if 200 <= status < 300:
                self._count_success("acknowledged")
                self.refusals = 0
            elif 400 <= status < 500 and status not in RETRIABLE | OF_ADDRESS and self.refusals < OPEN_AFTER:
                self._count_success("refused")  # the address works
                self.refusals += 1
                raise RefusedByWebhook(status=status, answer=reason)
            else:
                failure = self._failure(began_at, f"status {status}: {reason}", retry_after_s)
                failure.is_about_request = status not in {*GATEWAY_ERRORS, *OF_ADDRESS, 429} and not retry_after_s
                raise failure

    def _count_success(self, outcome: str) -> None:
        self.failures, self.successes, self._pauses = 0, self.successes + 1, 0
        self._states.count(self._settings.name, outcome)
        self._states.succeeded(self._settings.name)

    def _failure(self, began_at: float, fault: str, retry_after_s: float = 0.0) -> NoAnswerFromWebhook:
        error = NoAnswerFromWebhook(fault=fault, failures=self.failures + 1)
        self._count_failure(began_at, error, retry_after_s)
        return error

    def _count_failure(self, began_at: float, error: SemqError, retry_after_s: float = 0.0) -> None:
        """Count a failure, and set the pause after it. ``began_at``: the time of the request."""
        self.failures += 1
        self._states.count(self._settings.name, "failed")
        now = self._clock.monotonic()
        if began_at >= self._failed_at:  # requests that fail together lengthen the pause once
            self._pauses += 1
        self._failed_at = now
        pause_s = retry.backoff(self._pauses, PAUSE_S_MIN, PAUSE_S_MAX, self._clock.random())
        self._retry_after = max(self._retry_after, now + min(retry_after_s, RETRY_AFTER_S_MAX))
        self._paused_until = max(now + pause_s, self._retry_after)
        self._states.failed(self._settings.name, error, is_paused=self._is_open)

    @property
    def _is_open(self) -> bool:
        return self.failures >= OPEN_AFTER or (self.failures > 0 and self.refusals >= OPEN_AFTER)

    @asynccontextmanager
    async def _after_pause(self) -> AsyncIterator[None]:
        """Wait for the end of the pause. Requests that must wait go one at a time."""
        if not self._is_open and self._clock.monotonic() >= self._retry_after:
            yield
            return
        async with self._probe_lock:
            paused_until = self._paused_until if self._is_open else self._retry_after
            await asyncio.sleep(max(paused_until - self._clock.monotonic(), 0.0))
            yield

    async def _send(self, request: WebhookRequest, limit: asyncio.Timeout) -> tuple[int, str, float]:
        """Return the status, the beginning of the answer, and the seconds of Retry-After (0: none)."""
        if self._settings.proxy is not None:
            return await self._send_to(None, request, limit, self._settings.timeout_s)
        addresses = await self._addresses()
        *first_addresses, last_address = addresses
        connect_s = self._settings.timeout_s / len(addresses)  # leaves time for the next address
        for address in first_addresses:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # nothing was sent
                return await self._send_to(address, request, limit, connect_s)
        return await self._send_to(last_address, request, limit, connect_s)

    async def _send_to(
        self,
        address: IPv4Address | IPv6Address | None,
        request: WebhookRequest,
        limit: asyncio.Timeout,
        connect_s: float,
    ) -> tuple[int, str, float]:
        """``address``: None if a proxy resolves the host."""
        host, port = self._parts.hostname or "", self._parts.port
        url = self._parts.geturl()
        if address is not None:
            ip = f"[{address}]" if address.version == 6 else str(address)
            url = self._parts._replace(netloc=f"{ip}:{port}" if port else ip).geturl()
        timestamp = int(self._clock.wall().timestamp())
        headers = {
            **self._more_headers,
            **request.headers,
            **await self._signature(request, timestamp, limit),
            "host": self._parts.netloc.rpartition("@")[2],
            "user-agent": "semq",
            "accept-encoding": "identity",
        }
        extensions = {"sni_hostname": host}
        body = request.body
        content = body if isinstance(body, bytes) else self._blocks(body, limit)
        timeout = httpx.Timeout(self._settings.timeout_s, connect=connect_s)
        client = await self._client.current()
        stream = client.stream("POST", url, content=content, headers=headers, extensions=extensions, timeout=timeout)
        async with stream as answer:
            limit.reschedule(None)  # the address has answered in time
            answer_body = b""
            with suppress(TimeoutError, httpx.HTTPError):
                async with asyncio.timeout(BODY_S):
                    async for piece in answer.aiter_raw():
                        answer_body += piece
                        if len(answer_body) >= ANSWER_MAX:
                            break
            retry_after_s = _retry_after_s(answer.headers.get("retry-after", ""), self._clock.wall())
            return answer.status_code, answer_body[:ANSWER_MAX].decode("utf-8", "replace"), retry_after_s

    async def _signature(self, request: WebhookRequest, timestamp: int, limit: asyncio.Timeout) -> dict[str, str]:
        if isinstance(request.body, bytes):
            return signature_headers(self._keys, request.id, timestamp, (request.body,))
        limit.reschedule(None)  # reading the file does not count against the limit
        return await asyncio.to_thread(signature_headers, self._keys, request.id, timestamp, request.body.blocks())

    async def _blocks(self, body: SpooledBody, limit: asyncio.Timeout) -> AsyncIterator[bytes]:
        """Yield a large body; each block restarts the time limit."""
        for block in body.blocks():
            limit.reschedule(asyncio.get_running_loop().time() + self._settings.timeout_s)
            yield block

    async def _addresses(self) -> list[IPv4Address | IPv6Address]:
        host = self._parts.hostname or ""
        resolved = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        addresses = [ip_address(str(socket_address[0]).partition("%")[0]) for *_, socket_address in resolved]
        if not self._settings.allow_private:
            for address in addresses:
                if not _is_public(address):
                    raise AddressNotAllowed(host=host, address=str(address))
        return addresses


def _tls_context(settings: WebhookSection) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(settings.trust) if settings.trust else None)
    except OSError as error:
        raise WebhookTrustUnreadable(webhook=settings.name, trust=str(settings.trust), fault=error.strerror) from error
    if settings.certificate is not None:
        try:
            context.load_cert_chain(settings.certificate, settings.key, password=no_passphrase)
        except OSError as error:
            fault = error.strerror or str(error)
            raise WebhookTrustUnreadable(
                webhook=settings.name, certificate=str(settings.certificate), fault=fault
            ) from error
    return context


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address, or the IPv4 address that it embeds, is public."""
    if isinstance(address, IPv6Address):
        if address in NAT64 or address in IPV4_COMPATIBLE:
            return _is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        embedded = address.ipv4_mapped or address.sixtofour
        if embedded is not None:
            return _is_public(embedded)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast


def _retry_after_s(text: str, now: datetime) -> float:
    """Return the seconds of Retry-After, a number or a date; 0 if it is missing, past or unreadable."""
    try:
        return max(float(text), 0.0) if text.replace(".", "").isdecimal() else _seconds_until(text, now)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _seconds_until(text: str, now: datetime) -> float:
    return max((parsedate_to_datetime(text).astimezone(UTC) - now).total_seconds(), 0.0)
