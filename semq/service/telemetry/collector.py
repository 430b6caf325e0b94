"""Requests to one collector, and the meaning of its answers.

Redirects are not followed, because a header may hold a secret.
"""

import asyncio
import logging
import ssl
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import NamedTuple

import httpx

from semq.clock import Clock
from semq.config.telemetry import TelemetrySection
from semq.foreign_text import shown
from semq.service.telemetry.otlp import RETRIABLE, pause_of, rejected
from semq.transport.http_client import RenewedClient
from semq.transport.tls_files import TlsFiles

ANSWER_MAX = 4096  # bytes of an answer that are read
SHOWN_MAX = 200  # characters of a fault


class CollectorAnswer(NamedTuple):
    """The result of one request."""

    is_accepted: bool = False
    fault: str = ""  #: reason for which all or some spans were not accepted
    may_repeat: bool = False  #: the same request may succeed later
    pause_s: float = 0.0  #: pause that the collector requested
    rejected: int = 0  #: spans rejected from an accepted request


class OtlpCollector:
    """The connection of one node to its collector. Raises OSError if ``trust`` is unreadable."""

    def __init__(self, settings: TelemetrySection, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        for library in ("httpx", "httpcore"):  # they log headers, and addresses whose query may hold a key
            logging.getLogger(library).setLevel(logging.WARNING)
        tls = _tls_files(settings.trust) if settings.endpoint.startswith("https") else None
        configured_headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        fixed_headers = {"content-type": "application/json", "user-agent": "semq", "accept-encoding": "identity"}
        self._client = RenewedClient(
            tls,
            lambda context: httpx.AsyncClient(
                verify=context,
                headers=configured_headers | fixed_headers,
                timeout=settings.timeout_s,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                trust_env=False,
                follow_redirects=False,
                limits=httpx.Limits(max_connections=1),
            ),
        )

    async def post(self, body: bytes) -> CollectorAnswer:
        """Send a request. A fault of collector or network is an answer, not an error."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                client = await self._client.current()
                async with client.stream("POST", self._settings.endpoint, content=body) as response:
                    return self._read(response, await _first_bytes(response))
        except TimeoutError:
            return CollectorAnswer(fault=f"no answer within {self._settings.timeout_s:g} s", may_repeat=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return CollectorAnswer(fault=shown(f"{type(error).__name__}: {error}", SHOWN_MAX), may_repeat=True)

    def _read(self, response: httpx.Response, answer: bytes) -> CollectorAnswer:
        status = response.status_code
        if 200 <= status < 300:
            count, reason = rejected(answer)
            fault = shown(f"{count} spans rejected: {reason}", SHOWN_MAX) if count else ""
            return CollectorAnswer(True, fault, rejected=count)
        fault = shown(f"status {status}: {answer.decode('utf-8', 'replace')}".rstrip(": "), SHOWN_MAX)
        pause_s = pause_of(response.headers.get("retry-after"), self._clock.wall())
        return CollectorAnswer(False, fault, status in RETRIABLE, pause_s)

    async def close(self) -> None:
        """End the connection."""
        await self._client.close()


@lru_cache(maxsize=4)
def _tls_files(trust: Path | None) -> TlsFiles:
    # Shared by all nodes of a process, because the system's authorities take a megabyte.
    return TlsFiles((trust,), lambda: ssl.create_default_context(cafile=str(trust) if trust else None))


async def _first_bytes(response: httpx.Response) -> bytes:
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) >= ANSWER_MAX:
            break
    return body[:ANSWER_MAX]
