"""Logins at the hub: nodes by certificate, token or password; administrators by password.

| login by           | from                                 | user                   | virtual hosts       |
|--------------------|--------------------------------------|------------------------|---------------------|
| a certificate      | anywhere                             | the node that it names | ``umx``, ``enroll`` |
| a node's password  | loopback, or ``allow_plain``         | that node              | ``umx``, ``enroll`` |
| an enrolment token | TLS, or loopback                     | ``enroll/NODE``        | ``enroll``          |
| a user's password  | TLS, or loopback, or ``allow_plain`` | an administrator       | ``/``               |

In ``umx``, a node may write to exchanges ``umx`` and ``semq.answer``, and read its own three queues. In ``enroll``, it
may write to ``semq.enroll`` and ``semq.ask``, and use a queue for the answers. The broker refuses everything else.
"""

from collections.abc import Callable

import structlog

from platform_node.registry import Registry
from semq.amqp.sasl import Credentials
from semq.broker.users import Permissions, UserTable
from semq.errors import SemqError
from semq.pki.errors import TokenRefused
from semq.service.credentials.identity import certificate_of
from semq.service.links.rights import UMX, link_permissions
from semq.transport.peer import PeerInfo

ENROLL = "enroll"
TOKEN_USER_PREFIX = "enroll/"  # before the address of a node that has only a token
ENROLL_PERMISSIONS = Permissions(
    configure=r"^amq\.gen-", write=r"^(semq\.enroll|semq\.ask|amq\.gen-.*)$", read=r"^amq\.gen-"
)
log = structlog.get_logger("semq.logins")


class HubLogins:
    """The hub's ``Authenticator``."""

    def __init__(
        self, users: UserTable, is_node: Callable[[str], bool], registry: Registry | None, *, allow_plain: bool
    ) -> None:
        """``is_node``: whether a name is the address of an institution. ``registry``: None without TLS."""
        self.mechanisms = ("PLAIN", "AMQPLAIN", *(("EXTERNAL",) if registry is not None else ()))
        self._users = users
        self._is_node = is_node
        self._registry = registry
        self._allow_plain = allow_plain

    async def authenticate(self, mechanism: str, credentials: Credentials, peer: PeerInfo) -> str | None:
        """Return the name of the user; None refuses the login. The log has the reason; the client gets none."""
        if mechanism == "EXTERNAL":
            return self._by_certificate(credentials, peer)
        if credentials.user.startswith(TOKEN_USER_PREFIX):
            return await self._by_token(credentials, peer)
        may_be_plain = peer.is_loopback or self._allow_plain
        if not may_be_plain and (peer.tls is None or self._is_node(credentials.user)):
            why = "passwords of nodes come from this machine only, those of users also over TLS (amqp.allow_plain)"
            log.warning("password_refused", user=credentials.user[:80], peer=str(peer), tls=peer.tls, why=why)
            return None
        return await self._users.authenticate(mechanism, credentials, peer)

    def _by_certificate(self, credentials: Credentials, peer: PeerInfo) -> str | None:
        try:
            certificate = certificate_of(peer)
            assert self._registry is not None  # without a registry EXTERNAL is not offered
            self._registry.check(certificate)
        except SemqError as error:
            log.warning("certificate_refused", peer=str(peer), error=str(error))
            return None
        name = str(certificate.node)
        if credentials.user not in ("", name):
            log.error("foreign_name", claims=credentials.user[:80], node=name, peer=str(peer))
            return None
        if not self._is_node(name):
            log.warning("unknown_node", node=name, peer=str(peer))
            return None
        return name

    async def _by_token(self, credentials: Credentials, peer: PeerInfo) -> str | None:
        node = credentials.user.removeprefix(TOKEN_USER_PREFIX)
        if self._registry is None or not (peer.tls or peer.is_loopback) or not self._is_node(node):
            facts = {"has_authority": self._registry is not None, "tls": peer.tls, "is_node": self._is_node(node)}
            log.warning("token_not_possible", node=node[:80], peer=str(peer), **facts)
            return None
        try:
            await self._registry.ticket(node, credentials.password or b"")
        except TokenRefused as error:
            log.warning("token_refused", node=node, peer=str(peer), error=str(error))
            return None
        return credentials.user

    def permissions(self, user: str, vhost: str) -> Permissions | None:
        """Return a user's permissions in a virtual host; None if the user may not open it."""
        if user.startswith(TOKEN_USER_PREFIX):
            is_node = self._is_node(user.removeprefix(TOKEN_USER_PREFIX))
            return ENROLL_PERMISSIONS if vhost == ENROLL and is_node else None
        if not self._is_node(user):
            return self._users.permissions(user, vhost)
        return {UMX: link_permissions(user), ENROLL: ENROLL_PERMISSIONS}.get(vhost)
