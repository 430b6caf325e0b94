"""Requests to one collector, and the meaning of its answers. Used by ``export``.

Redirects are not followed, because a header may hold a secret; cookies are not kept, proxies of the environment are not
used. Of an answer only the first bytes are read.
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
from semq.service.telemetry.otlp import LATER, pause_of, rejected

ANSWER_MAX = 4096  # bytes of an answer that are read
SHOWN_MAX = 200  # characters of a fault


class CollectorAnswer(NamedTuple):
    """The result of one request."""

    is_taken: bool = False
    fault: str = ""  #: reason for which spans were not taken
    may_repeat: bool = False  #: the same request may succeed later
    pause_s: float = 0.0  #: pause that the collector requested
    rejected: int = 0  #: spans rejected from an accepted request


class OtlpCollector:
    """The collector of one node, while spans wait for it. Raises OSError if ``trust`` cannot be read."""

    def __init__(self, settings: TelemetrySection, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        for name in ("httpx", "httpcore"):  # they log each address, whose query may hold a key, and headers
            logging.getLogger(name).setLevel(logging.WARNING)
        trust = _trusting(settings.trust) if settings.endpoint.startswith("https") else False
        given = {name: value.get_secret_value() for name, value in settings.headers.items()}
        own = {"content-type": "application/json", "user-agent": "semq", "accept-encoding": "identity"}
        self._client = httpx.AsyncClient(
            verify=trust,
            headers=given | own,
            timeout=settings.timeout_s,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=1),
        )

    async def post(self, body: bytes) -> CollectorAnswer:
        """Send a request. Never raises for a fault of the collector or of the way to it."""
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                async with self._client.stream("POST", self._settings.endpoint, content=body) as response:
                    return self._read(response, await _beginning(response))
        except TimeoutError:
            return CollectorAnswer(fault=f"no answer within {self._settings.timeout_s:g} s", may_repeat=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return CollectorAnswer(fault=shown(f"{type(error).__name__}: {error}", SHOWN_MAX), may_repeat=True)

    def _read(self, response: httpx.Response, answer: bytes) -> CollectorAnswer:
        status = response.status_code
        if 200 <= status < 300:
            count, why = rejected(answer)
            fault = shown(f"{count} spans rejected: {why}", SHOWN_MAX) if count else ""
            return CollectorAnswer(True, fault, rejected=count)
        fault = shown(f"status {status}: {answer.decode('utf-8', 'replace')}".rstrip(": "), SHOWN_MAX)
        pause_s = pause_of(response.headers.get("retry-after"), self._clock.wall())
        return CollectorAnswer(False, fault, status in LATER, pause_s)

    async def close(self) -> None:
        """End the connection."""
        await self._client.aclose()


@lru_cache(maxsize=4)
def _trusting(trust: Path | None) -> ssl.SSLContext:
    """Return the TLS settings, once for all nodes of a process: the authorities of the system take a megabyte."""
    return ssl.create_default_context(cafile=str(trust) if trust else None)


async def _beginning(response: httpx.Response) -> bytes:
    read = b""
    async for chunk in response.aiter_raw():
        read += chunk
        if len(read) >= ANSWER_MAX:
            break
    return read[:ANSWER_MAX]
