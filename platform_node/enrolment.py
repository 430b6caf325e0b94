"""Exchange ``semq.enroll`` in virtual host ``enroll``: certificates for nodes. The first one requires a token.

| operation | session logged in by | arguments      | result             |
|-----------|----------------------|----------------|--------------------|
| enroll    | a token              | token, request | certificate, trust |
| renew     | a certificate        | request        | certificate, trust |
| who       | a certificate        |                | node, serial       |

Links use the same port, so that a firewall has to open only one. A certificate names the node that has logged in; a
name in the certificate request is ignored.
"""

import msgspec

from platform_node.logins import TOKEN_USER_PREFIX
from platform_node.registry import Registry
from semq.broker.services import SessionInfo
from semq.broker.vhost import VirtualHost
from semq.pki.errors import TokenRefused
from semq.pki.trust import TrustStore
from semq.service.admin import RequestExchange, typed
from semq.service.credentials.identity import certificate_of
from semq.umx_t.address import parse_address

ENROLL_EXCHANGE = "semq.enroll"
CONCURRENT_MAX = 4  # concurrent requests per name
REQUEST_BYTES_MAX = 64 * 1024


class NameQuestion(msgspec.Struct, frozen=True):
    """No arguments."""


class NextRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate request (PKCS#10, PEM)."""

    request: str


class FirstRequest(NextRequest, frozen=True, kw_only=True):
    """A certificate request, and a token."""

    token: str


class EnrolmentService:
    """The handlers."""

    def __init__(self, registry: Registry, trust: TrustStore) -> None:
        self._registry = registry
        self._trust = trust

    def exchange(self, vhost: VirtualHost) -> RequestExchange:
        """Return the exchange for the virtual host."""
        requests = {
            "enroll": typed("enroll", FirstRequest, self.enroll),
            "renew": typed("renew", NextRequest, self.renew),
            "who": typed("who", NameQuestion, self.who),
        }
        return RequestExchange(ENROLL_EXCHANGE, vhost, requests, CONCURRENT_MAX, REQUEST_BYTES_MAX)

    async def enroll(self, session: SessionInfo, arguments: FirstRequest) -> dict[str, str]:
        """Sign the key of a node that enrols with a token."""
        if not session.user.startswith(TOKEN_USER_PREFIX):
            raise TokenRefused("This session has logged in without a token.")
        node = parse_address(session.user.removeprefix(TOKEN_USER_PREFIX))
        pem = await self._registry.enrol(node, arguments.token, arguments.request.encode())
        return self._result(pem)

    async def renew(self, session: SessionInfo, arguments: NextRequest) -> dict[str, str]:
        """Sign the next key of a node that has logged in by certificate."""
        current = certificate_of(session.peer)
        return self._result(await self._registry.renew(current, arguments.request.encode()))

    async def who(self, session: SessionInfo, arguments: NameQuestion) -> dict[str, str]:
        """Return the name of the session, to test a new certificate."""
        current = certificate_of(session.peer)
        self._registry.check(current)
        return {"node": str(current.node), "serial": current.serial_text}

    def _result(self, certificate: bytes) -> dict[str, str]:
        return {"certificate": certificate.decode("ascii"), "trust": self._trust.pem.decode("ascii")}
