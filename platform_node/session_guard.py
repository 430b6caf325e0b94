"""Live sessions against the truth about their certificates: one that was revoked, or has ended, ends its links too.

TLS looks at a certificate once, when a connection is made; a link may last for months. Checked at once by
``semq cert revoke``, here or at another process of the hub (NOTIFY), and every ten seconds for what was revoked in SQL.
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
from semq.service.identity import certificate_of

REVOCATION_S = 10.0
log = structlog.get_logger("semq.guard")


class Guard:
    """The sessions that came with certificates."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._sessions: dict[SessionInfo, NodeCertificate] = {}

    def opened(self, session: SessionInfo) -> None:
        """A session has begun."""
        if session.peer.certificate is not None:
            self._sessions[session] = certificate_of(session.peer)

    def closed(self, session: SessionInfo) -> None:
        """A session is over."""
        self._sessions.pop(session, None)

    def end_all(self, why: str) -> None:
        """End every session that came with a certificate: it comes again if its certificate is still good."""
        for session in list(self._sessions):
            del self._sessions[session]
            session.close(ConnectionForced(why))

    def look(self) -> None:
        """End every session whose certificate is no longer good."""
        for session, certificate in list(self._sessions.items()):
            try:
                self._registry.check(certificate)
                if certificate.not_after < self._clock.wall():
                    raise OutOfDate(node=str(certificate.node), until=utc_text(certificate.not_after))
            except SemqError as error:
                log.warning("link_ended", node=session.user, peer=str(session.peer), error=str(error))
                del self._sessions[session]
                session.close(ConnectionForced(error.text))
