"""The part of a local node that its operations and its answers to other nodes use."""

from typing import Protocol

from local_node.doors.inbox import Inboxes
from local_node.doors.schedule import ScheduledDocuments
from local_node.doors.sql_submissions import SqlSubmissions
from local_node.link.direct import DirectLinks
from local_node.link.uplink import Uplink
from local_node.pieces.transfer import Transfers
from local_node.renewal import Renewing
from semq.answers.status import CertificateStatus
from semq.clock import Clock
from semq.config.settings import Settings
from semq.engine.local_engine import LocalEngine
from semq.engine.secrecy.sealing import Sealing
from semq.service.clockwork import Clockwork
from semq.service.credentials.identity import NodeIdentity
from semq.service.operations.messages import ReadableNode
from semq.store.postgres.store import PostgresStore
from semq.umx_t.address import Address


class OperatedLocalNode(ReadableNode, Protocol):
    """A local node, as seen by its operations."""

    settings: Settings
    clock: Clock
    address: Address
    store: PostgresStore
    engine: LocalEngine
    clockwork: Clockwork
    inboxes: Inboxes
    submissions: SqlSubmissions
    schedule: ScheduledDocuments
    transfers: Transfers
    uplink: Uplink
    direct: DirectLinks | None
    renewing: Renewing | None
    sealing: Sealing | None

    def certificate_status(self) -> CertificateStatus:
        """Return the state of the own certificate. Raises NoIdentity."""

    def identity_in_use(self) -> NodeIdentity:
        """Return the certificates and authorities. Raises NoIdentity."""

    def apply_authorities(self) -> None:
        """Apply the present authorities to new connections; existing links stay."""

    async def wait_drained(self, timeout_s: float) -> bool:
        """Wait until no document is under way; return False after the time limit."""
