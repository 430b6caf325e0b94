"""Institution A, the hub and institution B in one process: real engines, memory stores, and frames in a list.

``settle`` runs turns until no work is left; time moves only by ``later``.
"""

from collections.abc import Callable, Sequence
from typing import Any

from semq.amqp.wire import encode_fields
from semq.engine.hub_engine import HubEngine
from semq.engine.local_engine import LocalEngine
from semq.engine.partners import Partners
from semq.engine.ports import Accepted, AppEvent, Delivery, InClear, Submission
from semq.engine.receiver.pieces import NO_PIECES
from semq.engine.secrecy.sealing import Sealing
from semq.engine.settings import EngineSettings
from semq.service.engine_handle import EngineHandle
from semq.store.rows import Event, Reason
from semq.umx_t.address import Address, NodeType, parse_address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes, Data, Envelope, Frame, Packet
from semq.umx_t.locator import Store
from semq.umx_t.records import Presence
from semq.umx_t.status import SaveFwd
from tests.clocks import ManualClock
from tests.memory_store.store import MemoryStore

HUB = Address(NodeType.PLATFORM, "hub")
SETTINGS = EngineSettings(inquiry_s=15, reconnect_spread_s=1, cleanup_s=0.1, ask_pause_s=0.1, expiry_s=0.5)


class TrioWire:
    """One direction of a session."""

    def __init__(self, trio: "Trio", peer: Address, deliver: Callable[[Frame], None]) -> None:
        self.peer = peer
        self.room = 1000
        self.is_up = True
        self.sent: list[Frame] = []  #: also dropped ones
        self._trio = trio
        self._deliver = deliver

    def send(self, frame: Frame) -> None:
        if self.is_up:
            self.sent.append(frame)
            self._trio.wires.append((self, frame))

    def arrive(self, frame: Frame) -> None:
        if self.is_up:
            self._deliver(frame)


class TrioConsumer:
    """An application at a node; if ``acks``, it acknowledges all deliveries in the next turn."""

    def __init__(self) -> None:
        self.places = 100  #: maximum number of unacknowledged deliveries
        self.acks = True
        self.held: list[Delivery] = []  #: unacknowledged
        self.deliveries: list[Delivery] = []

    def free(self, user: str) -> int:
        return self.places - len(self.held)

    def give(self, user: str, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        self.held.append(delivery)

    @property
    def payloads(self) -> list[bytes]:
        return [delivery.payload for delivery in self.deliveries]


class TrioReports:
    """The events for the application."""

    def __init__(self) -> None:
        self.events: list[AppEvent] = []

    def prepare(self, event: AppEvent) -> None:
        self.events.append(event)

    def publish(self, prepared: Sequence[Any]) -> None:
        raise AssertionError("prepare returned None, so nothing may be published")

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


class TrioDirectory:
    """The hub's directory. All may send to all targets that are not ``forbidden``."""

    def __init__(self, node_ids: Sequence[str]) -> None:
        self.addresses = [Address(NodeType.LOCAL, node_id) for node_id in node_ids]
        self.forbidden: set[Address] = set()
        #: by address of the group
        self.group_members: dict[str, list[str]] = {}
        self.known_certificates: dict[Address, tuple[str, ...]] = {}

    def serves(self, node: Address) -> bool:
        return node in self.addresses

    def partners(self, node: Address) -> Sequence[Address]:
        return self.addresses

    def groups(self, node: Address) -> Sequence[Presence]:
        """Return all groups, without ``node`` among the members."""
        return [
            Presence(node=name, allowed=False, members=tuple(each for each in members if each != str(node)))
            for name, members in self.group_members.items()
        ]

    def users(self, node: Address) -> Sequence[str]:
        members = self.group_members.get(str(node._replace(type=NodeType.USERS)), [])
        return [member.partition("/")[2] for member in members]

    def may_send(self, source: Address, target: Address) -> bool:
        return target not in self.forbidden

    def terms(self, source: Address, target: Address) -> None:
        """There are no agreements."""

    def introduce(self, node: Address, certificates: Sequence[str]) -> tuple[str, ...] | None:
        if self.known_certificates.get(node) == tuple(certificates):
            return None
        self.known_certificates[node] = tuple(certificates)
        return self.known_certificates[node]

    def certificates(self, node: Address) -> tuple[str, ...] | None:
        return self.known_certificates.get(node)

    def refuse(self, envelope: Envelope, size: int, waiting: Callable[[str, str], int]) -> Reason | None:
        target = envelope.target.node
        if target not in self.addresses:
            return "SEMQ-1201", "unknown"
        return None if self.may_send(envelope.lk0.node, target) else ("SEMQ-1202", "not allowed")


class Local:
    """A local node: the engine, its store, and the application."""

    def __init__(self, trio: "Trio", node_id: str) -> None:
        self.trio = trio
        self.address = Address(NodeType.LOCAL, node_id)
        self.store = MemoryStore()
        self.app = TrioConsumer()
        self.reported = TrioReports()
        self.up: TrioWire | None = None  #: link of the node's engine to the hub
        self.down: TrioWire | None = None  #: link of the hub's engine to the node
        self.accepted: list[Accepted] = []
        self.refused: list[Exception] = []  #: also errors of operators' acts (cancel, release, …)
        self.sealing = trio.secrecy(self.address)
        self.engine_handle = EngineHandle[LocalEngine]()
        self.start()

    def start(self) -> None:
        self.app.held.clear()
        recovered = self.store.recover(self.trio.time.incarnation())
        self.engine = self.engine_handle.current = LocalEngine(
            Store(*self.address[:2]), recovered, self.store, self.trio.time, self.trio.settings, self.app,
            self.reported, self.sealing or InClear(), lambda later: None, partners=self.trio.partners(),
            find_pieces=lambda source, document, found: found(NO_PIECES),
        )  # fmt: skip
        self.engine.handover.feed("")

    def crash(self) -> None:
        """End the process, and start another on the same store."""
        self.trio.cut(self)
        self.store = MemoryStore(self.store.tables)
        self.start()

    def send(
        self,
        *bodies: bytes,
        to: str = "56001",
        token: str = "",
        save_fwd: int = 3,
        ack2: bool = True,
        order_key: str = "",
        fixed: bool = False,
        key: str = "",
        expires_at: int = 0,
        encrypt: bool = False,
        user_headers: dict[str, Any] | None = None,
        not_before: int = 0,
    ) -> None:
        """Submit documents; ``key`` is the last part of their AppKey."""
        attributes = Attributes(
            save_fwd=SaveFwd(save_fwd), ack2=ack2, order_key=order_key, fixed=fixed,
            app_key=AppKey("trade", "order", "", key),
            expires_at=expires_at, encrypt=encrypt, user_headers=encode_fields(user_headers or {}),
        )  # fmt: skip
        self.engine.submit(
            [
                Submission(
                    parse_address(to),
                    attributes,
                    body,
                    self.accepted.append,
                    self.refused.append,
                    token=token,
                    not_before=not_before,
                )
                for body in bodies
            ]
        )

    def receive(self, *frames: Frame) -> None:
        assert self.up is not None
        self.engine.receive(self.up, frames)
        self.store.run()

    @property
    def rows(self) -> dict[str, int]:
        """The numbers of rows in the two queues and in the dedup ledger."""
        tables = self.store.tables
        return {"tb_0031": len(tables.outbound), "tb_0030": len(tables.pending), "dedup": len(tables.recorded)}

    def lines(self, event: Event) -> int:
        return sum(line.event is event for line in self.store.tables.ledger)


# ``Local.rows`` of a node without work.
CLEAN = {"tb_0031": 0, "tb_0030": 0, "dedup": 0}


class Trio:
    """A, the hub and B."""

    def __init__(
        self,
        settings: EngineSettings = SETTINGS,
        connected: bool = True,
        secrecy: Callable[[Address], Sealing | None] = lambda node: None,
        has_hub: bool = True,
    ) -> None:
        """``connected``: A and B have sessions with the hub. ``secrecy`` returns the sealing of a node; None: documents
        in clear. ``has_hub`` False: the configurations of A and B name each other as partners."""
        self.secrecy = secrecy
        self.has_hub = has_hub
        self.time = ManualClock()
        self.settings = settings
        self.wires: list[tuple[TrioWire, Frame]] = []  #: frames under way
        #: returns whether a frame is dropped
        self.lose: Callable[[TrioWire, Frame], bool] = lambda wire, frame: False
        self.directory = TrioDirectory(["10008", "56001"])
        self.hub_store = MemoryStore()
        self.hub_home = Store(*HUB[:2])
        self.nodes: list[Local] = []
        self.direct: tuple[TrioWire, ...] = ()  #: from A to B, from B to A
        self.start_hub()
        self.a, self.b = Local(self, "10008"), Local(self, "56001")
        self.nodes = [self.a, self.b]
        if connected and has_hub:
            self.connect(self.a)
            self.connect(self.b)
            self.settle()

    def partners(self) -> Partners | None:
        return None if self.has_hub else Partners.configured(["1.10008", "1.56001"])

    def start_hub(self) -> None:
        recovered = self.hub_store.recover(self.time.incarnation())
        self.hub = HubEngine(
            self.hub_home, recovered, self.hub_store, self.time, self.settings, self.directory, lambda later: None
        )

    def crash_hub(self) -> None:
        """End the hub and all sessions with it; start it again on the same store."""
        for node in self.nodes:
            self.cut(node)
        self.hub_store = MemoryStore(self.hub_store.tables)
        self.start_hub()

    @property
    def held(self) -> int:
        return len(self.hub_store.tables.outbound)

    def connect(self, node: Local) -> None:
        up = node.up = TrioWire(self, HUB, lambda frame: self.hub.receive(down, [frame]))
        down = node.down = TrioWire(self, node.address, lambda frame: node.engine.receive(up, [frame]))
        self.hub.link_up(down)
        node.engine.link_up(up)

    def cut(self, node: Local) -> None:
        """End a node's session with the hub; frames under way are lost."""
        if node.up is None or node.down is None:
            return
        node.up.is_up = node.down.is_up = False
        self.hub.link_down(node.down)
        node.engine.link_down(node.up)
        node.up = node.down = None

    def connect_directly(self) -> None:
        a, b = self.a, self.b
        to_b = TrioWire(self, b.address, lambda frame: b.engine.receive(to_a, [frame]))
        to_a = TrioWire(self, a.address, lambda frame: a.engine.receive(to_b, [frame]))
        self.direct = to_b, to_a
        a.engine.link_up(to_b)
        b.engine.link_up(to_a)

    def cut_directly(self) -> None:
        """End the direct session; frames under way are lost."""
        for wire, node in zip(self.direct, (self.a, self.b), strict=False):
            wire.is_up = False
            node.engine.link_down(wire)
        self.direct = ()

    def settle(self) -> None:
        """Do all work; the clock stands still."""
        while self._turn():
            pass

    def later(self, seconds: float, step: float = 0.25) -> None:
        """Let time pass, and do all work after each step."""
        end = self.time.now + seconds
        while self.time.now < end:
            self.time.now += step
            self.settle()

    def _turn(self) -> bool:
        is_busy = engine_turn(self.hub_store, self.hub)
        return self._nodes_turn() or is_busy

    def _nodes_turn(self) -> bool:
        worked = [engine_turn(node.store, node.engine) for node in self.nodes]
        busy = any(worked)
        wires, self.wires = self.wires, []
        for wire, frame in wires:
            busy = True
            if not self.lose(wire, frame):
                wire.arrive(frame)
        for node in self.nodes:
            if node.app.acks and node.app.held:
                brefs = [delivery.bref for delivery in node.app.held]
                node.app.held.clear()
                node.engine.answers.finish(brefs)
                node.engine.handover.feed("")
                busy = True
        return busy

    def send_and_catch(self, *bodies: bytes) -> list[Data]:
        """Let A send documents to B; return their messages. Messages to B are dropped until the test sets ``lose``."""
        messages: list[Data] = []

        def keep(wire: TrioWire, frame: Frame) -> bool:
            if isinstance(frame, Data) and wire is self.b.down:
                messages.append(frame)
                return True
            return False

        self.lose = keep
        self.a.send(*bodies)
        self.settle()
        return list(messages)

    def is_clean(self) -> bool:
        return self.held == 0 and all(node.rows == CLEAN for node in self.nodes)


def engine_turn(store: MemoryStore, engine: HubEngine | LocalEngine) -> bool:
    """Run a store's work and an engine's timers, and send its waiting packets; return whether the store had work."""
    is_busy = not store.idle
    if is_busy:
        store.run()
    engine.tick()
    engine.flush()
    return is_busy


def forwarded() -> Trio:
    """Return a trio in which A's row is SS_ACK_FWD: all frames of B are dropped."""
    trio = Trio()
    trio.lose = lambda wire, frame: wire is trio.b.up
    trio.a.send(b"x")
    trio.later(60)
    return trio


def is_message(frame: Frame) -> bool:
    return isinstance(frame, Data)


def records(frames: Sequence[Frame]) -> list[Any]:
    return [record for frame in frames if isinstance(frame, Packet) for record in frame.records]
