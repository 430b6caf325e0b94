"""The parts of a local node, and the node as its operations and its answers to other nodes see it."""

from typing import Protocol

from msgspec import Struct

from local_node.doors.inbox import Inboxes
from local_node.doors.notices import NotifiedJob
from local_node.doors.schedule import ScheduledDocuments
from local_node.doors.sql_submissions import SqlSubmissions
from local_node.link.direct import DirectLinks
from local_node.link.hub import HubPort
from local_node.pieces.assembly import Assembly
from local_node.pieces.remains import Remains
from local_node.pieces.transfer import EventsWithPieces, Transfers
from local_node.pieces.upload import Uploads
from local_node.renewal import Renewing
from semq.answers.status import CertificateStatus
from semq.engine.local_engine import LocalEngine
from semq.engine.secrecy.sealing import Sealing
from semq.service.datagrams.ends import OfferingEnd
from semq.service.operations.ports import OperatedNode


class LocalParts(Struct, frozen=True):
    """The parts of a local node between its doors and its engine. They survive the engine (``local_node.parts``)."""

    assembly: Assembly
    inboxes: Inboxes
    submissions: SqlSubmissions
    sql_submissions: NotifiedJob
    sql_done: NotifiedJob
    schedule: ScheduledDocuments
    transfers: Transfers
    uploads: Uploads
    remains: Remains
    events: EventsWithPieces
    offering: OfferingEnd | None  #: for datagrams of partners that dial; None without [direct] or [datagrams]
    direct: DirectLinks | None  #: None without [direct]
    hub: HubPort
    renewing: Renewing | None  #: None if the node has no link to a hub with TLS


class OperatedLocalNode(OperatedNode, Protocol):
    """A local node, as seen by its operations."""

    sealing: Sealing | None  #: None without certificates
    parts: LocalParts

    @property
    def engine(self) -> LocalEngine:
        """The present engine."""

    def certificate_status(self) -> CertificateStatus:
        """Return the state of the own certificate. Raises NoIdentity."""

    async def wait_drained(self, timeout_s: float) -> bool:
        """Wait until no document is under way; return False after the time limit."""
