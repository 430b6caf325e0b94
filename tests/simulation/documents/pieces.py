"""Documents in pieces in the simulator: their transfer, their removal, and the oracle's checks of them.

Pieces and manifests are made and read by the functions of the real nodes. The oracle checks that a manifest is recorded
only with all its pieces, that no piece ends before its document, and that applications get whole documents.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING

from local_node.pieces.transfer import attributes_of_piece
from semq.engine.ports import Accepted, AppEvent, Delivery, Submission
from semq.engine.receiver.pieces import PiecesFound, is_stored_piece, pieces_here, pieces_in_order
from semq.engine.stored_envelopes import decode_envelope
from semq.errors import SemqError
from semq.store.rows import ArrivedPiece, Stored
from semq.store.unit import Unit
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes
from semq.umx_t.locator import LK0
from semq.umx_t.pieces import PIECES_USER, PieceName, PiecesManifest, digest_of, parse_piece_name, read_manifest
from semq.umx_t.status import AppStatus, Arrival
from tests.memory_store.tables import Tables
from tests.simulation.application import PlannedDocument

if TYPE_CHECKING:
    from tests.simulation.host import Host, LocalHost
    from tests.simulation.oracle.messages import SimulatedMessage
    from tests.simulation.world import World

PIECE_BYTES = 8
AGAIN_S = 20.0  # seconds after which a sender looks for pieces that have no message
SWEEP_S = 60.0
SEARCH_S = 2.0  # longest duration of a search


@dataclass(slots=True, eq=False)
class SimulatedTransfer:
    """A document in pieces on the disk of its sender. A restore of the sender's store does not change it."""

    source: str
    target: str
    name: str  #: value of @Pieces
    body: bytes
    remaining: set[int] = field(init=False)  #: pieces without a receipt
    failed: bool = False  #: a piece was not delivered
    released: bool = False  #: the manifest was submitted

    def __post_init__(self) -> None:
        self.remaining = set(range(self.manifest.count))

    @property
    def pieces(self) -> list[bytes]:
        return [self.body[at : at + PIECE_BYTES] for at in range(0, len(self.body), PIECE_BYTES)]

    @property
    def manifest(self) -> PiecesManifest:
        pieces = digest_of(sha256(piece).digest() for piece in self.pieces)
        return PiecesManifest(len(self.body), PIECE_BYTES, pieces, sha256(self.body).hexdigest())

    @property
    def attributes(self) -> Attributes:
        return Attributes(app_key=AppKey("simulated", "", "", self.name), pieces=self.name)


class SimulatedPieces:
    """All documents in pieces of a run."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.transfers: dict[str, SimulatedTransfer] = {}  #: by name
        self._searches: defaultdict[str, set[str]] = defaultdict(set)  #: documents under search, by node
        self._purged: set[str] = set()

    @property
    def manifests(self) -> int:
        """The number of submitted manifests."""
        return sum(transfer.released for transfer in self.transfers.values())

    @property
    def is_idle(self) -> bool:
        return all(transfer.released or transfer.failed for transfer in self.transfers.values())

    def begin(self) -> None:
        """Plan the documents. They have a random generator of their own, so that seeds keep the other documents."""
        chance, names = Random(self.world.plan.seed * 7 + 3), [host.name for host in self.world.locals]
        for number in range(chance.randint(1, 3) if "pieces" in self.world.plan.kinds else 0):
            source, target = chance.sample(names, 2)
            body = chance.randbytes(chance.randint(PIECE_BYTES + 1, 4 * PIECE_BYTES))
            name = str(LK0(1, source, 1, 1, 0, number))
            transfer = self.transfers[name] = SimulatedTransfer(source, target, name, body)
            self.world.time.at(chance.uniform(0.0, self.world.plan.faulty_s * 0.7), self._send, transfer)
        if self.transfers:
            self.world.time.after(SWEEP_S, self._sweep)

    # --- the sender
    def _send(self, transfer: SimulatedTransfer) -> None:
        """Send the remaining pieces that have no message; repeat until all have a receipt or one has failed."""
        if transfer.failed:
            return
        host = self.world.host(transfer.source)
        rows = [row for row in host.tables.outbound.values() if row.outcome is None]
        under_way = {piece_or_document(host.tables.bodies[row.object_id]) for row in rows}
        for number in sorted(transfer.remaining):
            if str(PieceName(transfer.name, number)) not in under_way:
                host.submit([self._piece(transfer, number)])
        if transfer.remaining:
            self.world.time.after(AGAIN_S, self._send, transfer)

    def _piece(self, transfer: SimulatedTransfer, number: int) -> Submission:
        target = self.world.host(transfer.target).address
        attributes = attributes_of_piece(transfer.attributes, str(PieceName(transfer.name, number)))
        to = Address(target.type, target.id, PIECES_USER)
        return Submission(to, attributes, transfer.pieces[number], _ignore_acceptance, _ignore)

    def note_event(self, event: AppEvent) -> None:
        """Note the end of a piece's message; with the last receipt, submit the manifest."""
        name = self.world.oracle.messages[event.lk0].pieces if event.lk0 in self.world.oracle.messages else ""
        if "/" not in name or not (event.kind == "delivered" or event.outcome):
            return
        piece = parse_piece_name(name)
        transfer = self.transfers[piece.document]
        if event.kind == "delivered":
            transfer.remaining.discard(piece.number)
        elif piece.number in transfer.remaining:
            transfer.failed = True
        if not transfer.remaining and not (transfer.released or transfer.failed):
            transfer.released = True
            manifest = PlannedDocument(transfer.name, transfer.target, transfer.attributes, transfer.manifest.encode())
            self.world.host(transfer.source).application.submit([manifest])

    # --- the receiver
    def find(self, host: "LocalHost", source: str, document: str, found: PiecesFound) -> None:
        """Search for the pieces of a document (``FindPieces``), which takes a while."""
        searched = self._searches[host.name]
        if document not in searched:
            searched.add(document)
            in_s = self.world.chance.uniform(0.0, SEARCH_S)
            self.world.time.after(in_s, self._found, host, host.life, document, found)

    def _found(self, host: "LocalHost", life: int, document: str, found: PiecesFound) -> None:
        self._searches[host.name].discard(document)
        if host.is_up(life):
            found(pieces_here(_arrived(host.tables, document)))
            host.plan_tick()

    def _sweep(self) -> None:
        """Remove the pieces of documents that have ended."""
        for transfer in self.transfers.values():
            if self._has_ended(transfer):
                self.remove(transfer)
        self.world.time.after(SWEEP_S, self._sweep)

    def _has_ended(self, transfer: SimulatedTransfer) -> bool:
        messages = self.world.oracle.messages.values()
        ended = all(m.outcome is not None or m.forgotten for m in messages if m.document == transfer.name)
        return ended and (transfer.failed or transfer.name in self.world.oracle.answered)

    def remove(self, transfer: SimulatedTransfer) -> None:
        """Remove the pieces at the receiver, unless the manifest is there. Real nodes wait for 30 days."""
        host = self.world.host(transfer.target)
        names = dict(_named((bref, host.tables.pending_bodies[bref]) for bref in host.tables.pending))
        if transfer.name in names.values():
            return
        brefs = [piece.bref for piece in _arrived(host.tables, transfer.name)]
        if brefs and host.is_up():
            self._purged.add(transfer.name)
            self.world.trace("purge", host.name, transfer.name)
            if host.is_idle:  # all claims are committed, so the manifests of these pieces were seen above
                host.call(lambda engine: engine.core.pieces.forget_claims())
            host.call(lambda engine: engine.answers.finish(engine.core.pieces.give_up(brefs)))

    # --- the oracle
    def check_recorded(self, host: "Host", message: "SimulatedMessage") -> None:
        """Check that a manifest is recorded as received only with all its pieces."""
        if message.is_manifest:
            transfer, here = self.transfers[message.pieces], {p.number for p in _arrived(host.tables, message.pieces)}
            holds = here == set(range(transfer.manifest.count))
            self.world.oracle.demand(holds, "24", f"recorded with the pieces {sorted(here)}", message, "lost")

    def may_refuse(self, message: "SimulatedMessage") -> bool:
        """Whether a message is a manifest whose pieces may be missing at its receiver."""
        parts = [other for other in self.world.oracle.messages.values() if other.document == message.document]
        return message.is_manifest and (message.pieces in self._purged or any(part.dest_restored for part in parts))

    def check_end(self, host: "Host", unit: Unit, message: "SimulatedMessage") -> None:
        """Check that a piece ends with its document, or without one."""
        pending = host.tables.pending
        named = _named((bref, host.tables.pending_bodies[bref]) for bref in pending)
        manifests = [bref for bref, name in named if name == message.document and pending[bref].status is Arrival.RECV]
        states = (unit.changed_app_status.get(bref, pending[bref].app_status) for bref in manifests)
        waiting = [state for state in states if state is not AppStatus.DONE]
        self.world.oracle.demand(not waiting, "24", "a piece ended before its document", message, "lost")

    def join(self, host: "LocalHost", delivery: Delivery) -> list[int]:
        """Return the pieces of a delivered manifest, which end with it. Check that they join to its document."""
        transfer, demand = self.transfers[delivery.envelope.attributes.pieces], self.world.oracle.demand
        arrived, brefs = _arrived(host.tables, transfer.name), list[int]()
        try:
            brefs = pieces_in_order(arrived, transfer.name, read_manifest(bytes(delivery.payload)))
        except SemqError as error:
            demand(False, "24", f"given without its pieces: {error}", delivery.envelope.lk0, "lost")
        body = b"".join(bytes(host.tables.pending_bodies[bref].payload) for bref in brefs)
        demand(body == transfer.body, "24", "joined to other bytes", delivery.envelope.lk0)
        return [piece.bref for piece in arrived]


def piece_or_document(stored: Stored) -> str:
    """Return @Pieces of a stored message."""
    return decode_envelope(stored).attributes.pieces


def _named(bodies: Iterable[tuple[int, Stored]]) -> list[tuple[int, str]]:
    return [(number, name) for number, stored in bodies if (name := piece_or_document(stored))]


def _arrived(tables: Tables, document: str) -> list[ArrivedPiece]:
    """Return the pieces of a document, as ``semq_pieces_of`` does."""
    arrived = []
    for bref, row in sorted(tables.pending.items()):
        if is_stored_piece(row) and row.app_status is AppStatus.NEW:
            name = parse_piece_name(piece_or_document(tables.pending_bodies[bref]))
            if name.document == document:
                arrived.append(ArrivedPiece(bref, name.number, row.size, row.digest))
    return arrived


def _ignore_acceptance(accepted: Accepted) -> None:
    pass


def _ignore(error: Exception) -> None:
    pass
