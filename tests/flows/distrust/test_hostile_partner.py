"""A hostile partner with a valid login causes a bounded number of rows, ledger lines and checks of signatures."""

from msgspec.structs import replace

from semq.engine.hub.sessions import INTRODUCTIONS_MAX
from semq.engine.violations import LINES_PER_MINUTE, WINDOW_S
from semq.store.rows import Event
from semq.umx_t.address import Address
from semq.umx_t.envelope import Data, Function, Packet, Primitive
from semq.umx_t.locator import Pos
from semq.umx_t.records import AckFlag, Inquiry, InquiryRole, Presence, Receipt
from tests.flows.trio import HUB, Trio, TrioWire

A, B = Address(1, "10008"), Address(1, "56001")


def reack2(ident: str, floors: dict[str, tuple[int, int | None]], bref: int = 0) -> Packet:
    """Return a ReAck2 of A to B about a message; ``bref``: number of its row at B, 0 for none."""
    record = Receipt(ack_flag=AckFlag.END_TO_END, ident=ident, floors=floors, dest_ref_id=bref)
    return Packet(A, B, Function.RECEIPTS, Primitive.RESPONSE, [record])


def hub_end_of_a(trio: Trio) -> TrioWire:
    """Return the hub's end of A's session."""
    assert trio.a.down is not None
    return trio.a.down


def test_floors_of_invented_incarnations_leave_no_row() -> None:
    trio = Trio()
    trio.lose = lambda wire, frame: isinstance(frame, Packet) and frame.primitive is Primitive.RESPONSE
    trio.a.send(b"one")
    trio.settle()
    tables = trio.b.store.tables
    (key,) = tables.in_streams
    ident = f"{key.store}.{key.inc:x}.7"
    invented: dict[str, tuple[int, int | None]] = {f"{n:x}": (1, None) for n in range(5, 3005)}
    trio.b.receive(reack2(ident, invented | {f"{key.inc:x}": (1, None)}))
    assert list(tables.in_streams) == [key]
    assert tables.in_streams[key].floor == 1
    assert trio.b.engine.core.counters.counts["floor_ignored"] == 3000


def test_a_floor_of_an_incarnation_that_a_waiting_document_names_is_accepted() -> None:
    """The second document waits for a position of incarnation 77 (4d): its floor is accepted, that of 78 is not."""
    trio = Trio()
    trio.a.send(b"one", order_key="k")
    trio.settle()
    assert trio.b.down is not None
    (data,) = [frame for frame in trio.b.down.sent if isinstance(frame, Data)]
    later = replace(
        data.envelope, lk0=data.envelope.lk0._replace(object_id=data.envelope.lk0.object_id + 1), sid=1,
        prev=Pos(77, 3),
    )  # fmt: skip
    trio.b.receive(Data(later, data.body))
    assert trio.b.app.payloads == [b"one"]  # the second one waits
    tables = trio.b.store.tables
    (row,) = [row for row in tables.pending.values() if row.lk0 == later.lk0]
    trio.b.receive(reack2(later.ident, {"4d": (0, 0), "4e": (0, 0)}, row.bref))
    trio.settle()
    assert trio.b.app.payloads == [b"one", b"one"]
    assert sorted(stream.inc for stream in tables.in_streams) == sorted([77, data.envelope.lk0.inc])


def test_violations_above_a_bound_are_counted_in_one_line() -> None:
    trio = Trio()
    lies = [Inquiry(role=InquiryRole.S, ident=f"1.88001.1.1.5.{n}", sid=n) for n in range(LINES_PER_MINUTE + 40)]
    trio.hub.receive(hub_end_of_a(trio), [Packet(A, B, Function.INQUIRIES, Primitive.REQUEST, lies)])
    trio.settle()
    trio.settle()  # lines are posted at the end of a turn
    ledger = trio.hub_store.tables.ledger
    violations = [line for line in ledger if line.event is Event.VIOLATION]
    assert len(violations) == LINES_PER_MINUTE
    assert trio.hub.core.counters.counts["violation"] == len(lies)
    trio.later(WINDOW_S + 1, step=5)
    (last,) = [line for line in ledger if line.event is Event.VIOLATION][LINES_PER_MINUTE:]
    assert last.detail.startswith("40 more violations")
    assert last.target == str(A)


def test_violations_at_a_local_node_are_bounded_for_each_partner() -> None:
    trio = Trio()
    for source in (A, Address(1, "88001")):
        lies = [Receipt(ack_flag=AckFlag.END_TO_END, ident=f"1.99.1.1.5.{n}") for n in range(LINES_PER_MINUTE * 2)]
        trio.b.receive(Packet(source, B, Function.RECEIPTS, Primitive.RESPONSE, lies))
    assert trio.b.lines(Event.VIOLATION) == 2 * LINES_PER_MINUTE
    trio.later(WINDOW_S + 1, step=5)
    assert trio.b.lines(Event.VIOLATION) == 2 * LINES_PER_MINUTE + 2


def test_introductions_of_a_node_above_ten_a_minute_are_refused() -> None:
    """Each introduction costs the hub checks of signatures, and a record to every connected partner."""
    trio = Trio()

    def introduce(n: int) -> None:
        record = Presence(node=str(A), online=True, certificates=(f"pem {n}",))
        trio.hub.receive(hub_end_of_a(trio), [Packet(A, HUB, Function.PRESENCE, Primitive.INDICATION, [record] * 3)])
        trio.settle()

    for n in range(100):
        introduce(n)
    assert trio.directory.known_certificates[A] == (f"pem {(INTRODUCTIONS_MAX - 1) // 3}",)
    assert trio.hub.core.counters.counts["violation"] == 300 - INTRODUCTIONS_MAX
    trio.later(61, step=10)
    introduce(200)
    assert trio.directory.known_certificates[A] == ("pem 200",)
