"""Attacks of a hostile hub on nodes with certificates."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from semq.engine.secrecy.sealing import Sealing
from semq.store.rows import Event
from semq.umx_t.address import Address
from semq.umx_t.envelope import Frame, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, Inquiry, InquiryRole, Receipt
from tests.flows.sealed import SECRET, SealedWorld, send
from tests.flows.trio import Local, TrioWire

A, B, C = Address(1, "10008"), Address(1, "56001"), Address(1, "88001")
Tamper = Callable[[TrioWire, Frame], Frame | None]
FAR_FLOOR = 10_000  # above the positions of all documents of a test


def honest(wire: TrioWire, frame: Frame) -> Frame:
    """Change nothing."""
    return frame


def sealing(node: Local) -> Sealing:
    assert isinstance(node.sealing, Sealing)
    return node.sealing


def signed(node: Local, target: Address, function: Function, primitive: Primitive, *records: Any) -> Packet:
    return sealing(node).sign(Packet(node.address, target, function, primitive, list(records)))


def violations(node: Local) -> int:
    return node.lines(Event.VIOLATION)


def dropping_frames_of_b(world: SealedWorld) -> Tamper:
    """Return a ``tamper`` that drops all frames of B."""
    return lambda wire, frame: None if wire is world.b.up else frame


def open_row(world: SealedWorld) -> Any:
    """Send a document to B and drop all frames of B; return A's row."""
    world.tamper = dropping_frames_of_b(world)
    send(world, SECRET)
    world.settle()
    (row,) = world.a.store.tables.outbound.values()
    return row


def floors(node: Local) -> Receipt:
    """Return the record of a ReAck2 with a far too high floor for a node's incarnation."""
    inc = node.engine.core.inc
    ident = f"{node.address}.1.1.{inc:x}.1"
    return Receipt(ack_flag=AckFlag.END_TO_END, ident=ident, floors={f"{inc:x}": (FAR_FLOOR, None)})


def is_ignoring_b(world: SealedWorld) -> bool:
    """Send a document from B to A; return whether A ignores it."""
    world.b.send(b"to A", to="10008", encrypt=True)
    world.later(60)
    return world.a.app.payloads != [b"to A"]


# Kind | B's statement that it has recorded the message of A's row.
STATEMENTS_OF_B: dict[str, Callable[[Any], tuple[Function, Primitive, Any]]] = {
    "an answer": lambda row: (
        Function.INQUIRIES,
        Primitive.CONFIRMATION,
        Inquiry(role=InquiryRole.S, ident=str(row.lk0), sid=row.sid, answer=Answer.RECV),
    ),
    "an inquiry R": lambda row: (
        Function.INQUIRIES,
        Primitive.REQUEST,
        Inquiry(role=InquiryRole.R, ident=str(row.lk0), sid=row.sid, status=Answer.RECV),
    ),
    "an Ack2": lambda row: (
        Function.RECEIPTS,
        Primitive.INDICATION,
        Receipt(ident=str(row.lk0), ack_flag=AckFlag.END_TO_END, status=Answer.RECV, sid=row.sid),
    ),
}


def hiding_certificates(*nodes: Local) -> Tamper:
    """Return a ``tamper`` that removes the certificates from the Presence records to these nodes."""

    def tamper(wire: TrioWire, frame: Frame) -> Frame:
        if isinstance(frame, Packet) and frame.function is Function.PRESENCE and wire in [node.down for node in nodes]:
            bare = [replace(record, certificates=None) for record in frame.records]
            return replace(frame, records=bare, header=None, body=b"")
        return frame

    return tamper


def with_hidden_certificates() -> SealedWorld:
    """Return a trio whose hub has always hidden the certificates of A and B from each other."""
    world = SealedWorld()
    for node in (world.a, world.b):
        for attribute in ("_partners", "_certified", "_seen"):
            getattr(sealing(node).keys, attribute).clear()
    world.tamper = hiding_certificates(world.a, world.b)
    return world
