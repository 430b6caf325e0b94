"""The check of live sessions: a revoked or expired certificate ends its links.

TLS checks a certificate only when a connection is made. Sessions are checked after ``semq cert revoke`` in this
process, after a NOTIFY of another process of the hub, and by jobs: for revocations every ten seconds, for expired
certificates every five seconds.
"""

import structlog

from platform_node.registry import Registry
from semq.amqp.errors import ConnectionForced
from semq.broker.services import SessionInfo
from semq.clock import Clock
from semq.errors import SemqError
from semq.moments import utc_text
from semq.pki.certificate import NodeCertificate
from semq.pki.errors import OutOfDate
from semq.service.credentials.identity import certificate_of
from semq.service.links.rights import UMX

REVOCATION_S = 10.0
log = structlog.get_logger("semq.guard")


class Guard:
    """The sessions that logged in by certificate."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._sessions: dict[SessionInfo, NodeCertificate] = {}

    def opened(self, session: SessionInfo) -> None:
        if session.peer.certificate is not None:
            self._sessions[session] = certificate_of(session.peer)

    def closed(self, session: SessionInfo) -> None:
        self._sessions.pop(session, None)

    def nodes(self) -> list[str]:
        """Return the nodes whose links use a certificate."""
        return list({session.user for session in self._sessions if session.vhost == UMX})

    def certificate(self, node: str) -> NodeCertificate | None:
        """Return the certificate of a node's newest link; None without one."""
        for session, certificate in reversed(self._sessions.items()):
            if (session.user, session.vhost) == (node, UMX):
                return certificate
        return None

    def end_sessions(self, why: str) -> None:
        """End every session with a certificate."""
        for session in list(self._sessions):
            del self._sessions[session]
            session.close(ConnectionForced(why))

    def check(self) -> None:
        """End every session whose certificate is no longer valid."""
        for session, certificate in list(self._sessions.items()):
            try:
                self._registry.check(certificate)
                if certificate.not_after < self._clock.wall():
                    raise OutOfDate(node=str(certificate.node), valid_until=utc_text(certificate.not_after))
            except SemqError as error:
                log.warning("link_ended", node=session.user, peer=str(session.peer), error=str(error))
                del self._sessions[session]
                session.close(ConnectionForced(f"{error.code} {error.text}"))
