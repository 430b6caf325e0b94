"""Host names that requests may use. Requests for other names are refused.

This prevents DNS rebinding: another site could make its own name resolve to the address of this machine. An IP address
is always accepted, because DNS rebinding needs a name.
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

ANY = "*"  # in http.hosts: all names are accepted
ACCEPTED_MAX = 1000  # accepted values of the header Host that are remembered
PORT = re.compile(r":[0-9]*$")


class KnownHosts:
    """An ASGI application that passes requests for known hosts to ``app``, and answers others with 421."""

    def __init__(self, app: ASGIApp, http: HttpSection) -> None:
        self._app = app
        self._names = names_of(http)
        self._accepted: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")  # HTTP/1.0 may have none
        if host not in self._accepted and not self._is_known(host):
            error = ForeignHost(host=shown(host.decode("latin-1"), 80))
            await problem(error, scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_known(self, host: bytes) -> bool:
        is_known = ANY in self._names or not host or is_address(host) or name_of(host) in self._names
        if is_known and len(self._accepted) < ACCEPTED_MAX:
            self._accepted.add(host)
        return is_known


def names_of(http: HttpSection) -> frozenset[str]:
    """Return the names of the configured addresses, of this machine, and in ``http.hosts``."""
    names = (http.host, urlsplit(http.url).hostname or "", "localhost", socket.gethostname(), socket.getfqdn())
    return frozenset(name.lower().rstrip(".") for name in (*names, *http.hosts) if name)


def name_of(host: bytes) -> str:
    """Return the name in a header ``Host``, without the port."""
    return PORT.sub("", host.decode("latin-1")).lower().rstrip(".")


def is_address(host: bytes) -> bool:
    """Whether a header ``Host`` contains an IP address."""
    try:
        ip_address(name_of(host).removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
