"""The names under which this process is reached: requests for others are refused.

Otherwise a page of another site could give its own name the address of this machine (DNS rebinding), and the browser
would take both for one site. A browser that was given a number has asked no name server, so numbers are always right.
"""

import re
import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from semq.config.web import HttpSection
from semq.foreign_text import shown
from semq.web.errors import ForeignHost
from semq.web.transport.failures import problem

ANY = "*"
FOUND_MAX = 1000  # values that are remembered
PORT = re.compile(r":[0-9]*$")


class KnownHosts:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, http: HttpSection) -> None:
        self._app = app
        self._names = names_of(http)
        self._good: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")  # HTTP/1.0 may have none
        if host not in self._good and not self._is_known(host):
            error = ForeignHost(host=shown(host.decode("latin-1"), 80))
            await problem(error, scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_known(self, host: bytes) -> bool:
        is_known = ANY in self._names or not host or is_address(host) or name_of(host) in self._names
        if is_known and len(self._good) < FOUND_MAX:
            self._good.add(host)
        return is_known


def names_of(http: HttpSection) -> frozenset[str]:
    """Return the names of a web process: of its address, of this machine, and those in the configuration."""
    given = (http.host, urlsplit(http.url).hostname or "", "localhost", socket.gethostname(), socket.getfqdn())
    return frozenset(name.lower().rstrip(".") for name in (*given, *http.hosts) if name)


def name_of(host: bytes) -> str:
    """Return the name in a header ``Host``, without the port."""
    return PORT.sub("", host.decode("latin-1")).lower().rstrip(".")


def is_address(host: bytes) -> bool:
    """Whether a header ``Host`` has an IP address."""
    try:
        ip_address(name_of(host).removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
