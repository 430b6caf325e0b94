"""A process with its disk: an engine that runs in turns, and a store that runs phase by phase.

The process may end between any two steps, and loses uncommitted changes and unsent frames.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from platform_node.certificate_directory import KnownCertificates
from semq.engine.hub_engine import HubEngine
from semq.engine.local_engine import LocalEngine
from semq.engine.partners import Partners
from semq.engine.ports import Secrecy, Submission
from semq.engine.secrecy.sealing import Sealing
from semq.engine.sender.lanes import Lane
from semq.store.unit import Unit
from semq.store.work import Work
from semq.umx_t.address import Address, parse_address
from semq.umx_t.envelope import Frame
from semq.umx_t.grids import SenderEvent
from semq.umx_t.locator import Store
from tests.memory_store.store import CommitFault, MemoryStore
from tests.memory_store.tables import Tables
from tests.simulation.application import SimOpener, SimulatedApplications
from tests.simulation.directory import SimDirectory
from tests.simulation.disturbances.faults import CHANGES_OF_KEYS
from tests.simulation.documents.schedule import SimulatedDoors
from tests.simulation.keys import SimulatedCredentials
from tests.simulation.network import SimLink, SimSession
from tests.simulation.timeline import SimClock

if TYPE_CHECKING:
    from tests.simulation.world import World

TICK_S = 0.005  # shortest interval between checks of the engine's timers


class WatchedStore(MemoryStore):
    """The store of one start of a process; the oracle checks each unit before it becomes durable."""

    def __init__(self, host: "Host") -> None:
        chance = host.world.chance
        # A unit often takes all waiting work, like the real writer, so that pieces of work see each other's changes.
        super().__init__(host.tables, lambda waiting: waiting if chance.random() < 0.5 else chance.randint(1, waiting))
        self.host = host

    def post(self, work: Work, *, later: bool = False) -> None:
        super().post(work, later=later)
        self.host.plan_transaction(self)

    def write(self, unit: Unit) -> None:
        self.host.world.oracle.commits(self.host, unit)
        super().write(unit)
        self.tables.ledger.clear()  # the oracle has checked these lines


class Host:
    def __init__(self, world: "World", name: str, own_store: Store, tables: Tables) -> None:
        self.world = world
        self.name = name
        self.own_store = own_store
        self.address: Address = own_store.node
        self.tables = tables
        self.life = 0
        self.skew_s = 0.0
        self.clock_was_set = False
        self.engine: Any = None
        self.store: WatchedStore | None = None
        self.clock: SimClock
        self.passes_on = False  #: it is passing on frames of another instance
        self.is_retired = False  #: it never starts again: its store was taken over, lost or replaced
        self._store_planned = self._flush_planned = self._late_flush_planned = False
        self._tick_at: float | None = None
        self._later_at: float | None = None  #: time from which delayed work is done
        self._restart_planned = False  #: after the loss of its store

    def is_up(self, life: int | None = None) -> bool:
        """Whether the process runs; with ``life``: whether it has not been restarted since."""
        return self.engine is not None and (life is None or life == self.life)

    # --- start and end
    def set_clock(self, skew_s: float) -> None:
        """Set the clock ``skew_s`` seconds ahead of the true time."""
        self.skew_s = skew_s
        self.clock_was_set = True
        self.world.oracle.clock_set(self)
        if self.engine is not None:
            self.clock.skew_s = skew_s

    def start(self) -> None:
        if self.engine is not None or self.is_retired:
            return
        self.life += 1
        self._store_planned = self._flush_planned = self._late_flush_planned = self._restart_planned = False
        self._tick_at = self._later_at = None
        self.clock = SimClock(self.world.time, self.world.chance, self.skew_s)
        self.store = WatchedStore(self)
        self.world.oracle.opened(self)
        self.engine = self.build(self.store)
        self.world.trace("starts", self.name, self.tables.boot)
        self.after_start()
        self.plan_tick()

    def build(self, store: WatchedStore) -> Any:
        raise NotImplementedError

    def after_start(self) -> None:
        """Do what this kind of node does after a start."""

    def crash(self, restart_s: float | None = None) -> None:
        """End the process. ``restart_s``: seconds until it starts again; None: it stays down."""
        if self.engine is None:
            return
        self.world.trace("crashes", self.name, "")
        if self.store is not None and self.store.open_unit is not None:
            self.world.oracle.undone(self.store.open_unit)
        self.engine = self.store = None
        self.after_crash()
        if restart_s is not None:
            self.world.time.after(restart_s, self.start)

    def after_crash(self) -> None:
        """Do what this kind of node does after a crash."""

    # --- turns
    def plan_tick(self) -> None:
        if self.engine is None:
            return
        earliest = self.world.time.now + TICK_S
        if self._tick_at is not None and self._tick_at <= earliest:
            return
        due = self.engine.next_due
        if due is None:
            return
        when = max(due - self.clock.base, earliest)
        if self._tick_at is None or when < self._tick_at:
            self._tick_at = when
            self.world.time.at(when, self._tick, self.life, when)

    def _tick(self, life: int, when: float) -> None:
        if self.is_up(life) and self._tick_at == when:
            self._tick_at = None
            self.receive_rumours()
            self.engine.tick()
            self.plan_tick()

    def receive_rumours(self) -> None:
        link = self.open_link()
        if link is not None and (hints := self.world.faults.draw_hints(link, [])):
            self.world.trace_all("rumour", self.name, hints)
            self.world.oracle.heard(self, hints)
            self.engine.receive(link, hints)
            self.note_room(link)

    def open_link(self) -> SimLink | None:
        """Return a session that the engine considers open, or None."""
        raise NotImplementedError

    def plan_flush(self, later: bool) -> None:
        if later and self.world.plan.holds_mail:
            if not self._late_flush_planned:
                self._late_flush_planned = True
                self.world.time.after(self.world.plan.later_s, self._flush, self.life)
        elif not self._flush_planned:
            self._flush_planned = True
            self.world.time.after(self.world.chance.random() * self.world.plan.flush_s, self._flush, self.life)

    def _flush(self, life: int) -> None:
        if self.is_up(life) and not self.world.faults.crashes(self, "flush"):
            self._flush_planned = self._late_flush_planned = False
            self.engine.flush()
            self.plan_tick()

    def receive(self, link: SimLink, frames: Sequence[Frame]) -> None:
        self.world.oracle.heard(self, frames)
        self.engine.receive(link, frames)
        self.plan_tick()

    def note_room(self, link: SimLink) -> None:
        raise NotImplementedError

    def link_up(self, link: SimLink) -> None:
        self.world.trace("link up", self.name, link.other.name)
        self.engine.link_up(link)
        self.plan_tick()

    def link_down(self, link: SimLink, was_up: bool) -> None:
        """Note the end of a session. ``was_up``: the engine was notified of its beginning."""
        if was_up:
            self.world.trace("link down", self.name, link.other.name)
            self.engine.link_down(link)
            self.plan_tick()

    # --- the store, phase by phase
    def plan_transaction(self, store: WatchedStore) -> None:
        """Plan a transaction: soon, or after ``plan.later_s`` if only deferred work waits."""
        if not self._store_planned and store.phase:
            self._store_planned = True
            self.world.time.after(self.world.disk_s(), self._store_step, self.life)
        elif self._later_at is None and store.is_waiting:
            self._later_at = self.world.time.now + self.world.plan.later_s
            self.world.time.at(self._later_at, self._waited_enough, self.life, self._later_at)

    def _waited_enough(self, life: int, when: float) -> None:
        if self.is_up(life) and self._later_at == when:
            self._later_at = None
            assert self.store is not None
            self.store.make_due()
            self.plan_transaction(self.store)

    def _store_step(self, life: int) -> None:
        if not self.is_up(life) or self.world.faults.crashes(self, "before"):
            return
        store = self.store
        assert store is not None
        self._store_phase(store)
        if self.world.faults.crashes(self, "after"):
            return
        self._store_planned = False
        self.plan_transaction(store)
        if store.is_lost and not self._restart_planned:
            # The result of a commit is unknown. All work of the engine fails until the restart.
            self._restart_planned = True
            self.world.time.after(self.world.faults.reopening_s(), self._begin_anew, life)

    def _store_phase(self, store: WatchedStore) -> None:
        match store.phase:
            case "begin":
                self._later_at = None
                store.begin()
                self.world.faults.deliver_to_open_unit(self)
            case "commit":
                fault = self.world.faults.commit_fault(self)
                if fault is not CommitFault.NONE:
                    self.world.trace("commit", self.name, fault)
                    assert store.open_unit is not None
                    self.world.oracle.undone(store.open_unit)
                store.commit(fault)
                if self.world.plan.goal is not None and self.world.plan.goal[2] is SenderEvent.claim:
                    self.receive_rumours()  # before the engine is notified of this commit and claims waiting rows
            case "deliver":
                store.deliver()
                if self.has_doubts:
                    self.receive_rumours()
                self.plan_tick()

    def _begin_anew(self, life: int) -> None:
        if self.is_up(life):
            self.crash(restart_s=self.world.chance.uniform(0.05, 1.0))

    @property
    def has_doubts(self) -> bool:
        """Whether a custodian is in doubt."""
        return False

    def volatile(self) -> dict[str, object]:
        """Return what the engine keeps in memory about single messages; empty once all rows are settled."""
        raise NotImplementedError

    @property
    def is_idle(self) -> bool:
        is_planned = self._flush_planned or self._late_flush_planned or self._restart_planned
        return self.store is None or (self.store.idle and not is_planned)


class LocalHost(Host):
    def __init__(self, world: "World", name: str) -> None:
        own_store = Store(1, name)
        super().__init__(world, name, own_store, Tables(name))
        self.session: SimSession | None = None
        self.is_offline = False
        self.application = SimulatedApplications(world, self)
        self.sealing: Sealing | None = None
        if world.keys is not None:
            self.credentials = SimulatedCredentials(world.keys.authority, self.address)
        self._dialling = False

    def build(self, store: WatchedStore) -> LocalEngine:
        self.application.forget_deliveries()
        recovered = store.recover(self.clock.incarnation())
        return LocalEngine(
            self.own_store,
            recovered,
            store,
            self.clock,
            self.world.plan.settings,
            self.application,
            self.application,
            self._secrecy(),
            self.plan_flush,
            partners=self._partners(),
            find_pieces=partial(self.world.pieces.find, self),
        )

    def _secrecy(self) -> Secrecy:
        keys = self.world.keys
        self.sealing = None if keys is None else keys.sealing(self)
        return self.sealing or SimOpener(signed="signed" in self.world.plan.kinds)

    def _partners(self) -> Partners | None:
        """Return the configured partners; None with a hub."""
        return None if self.world.plan.has_hub else Partners.configured(str(host.address) for host in self.world.locals)

    def after_start(self) -> None:
        self.doors = SimulatedDoors(self)
        self.doors.begin()
        self.application.feed()
        self.application.report_users()
        self.dial()

    def after_crash(self) -> None:
        self.application.forget_deliveries()
        self.world.direct.cut_sessions_of(self)
        if self.session is not None:
            self.session.cut(0.0, self.world.notice_s())
            self.session = None

    def receive_rumours(self) -> None:
        self.world.faults.act_in_doubt(self)
        super().receive_rumours()

    @property
    def has_doubts(self) -> bool:
        return bool(self.engine.rows.doubts)

    # --- the link
    def open_link(self) -> SimLink | None:
        link = self.session.dialler_end if self.session is not None else None
        return link if link is not None and link.up else None

    def dial(self) -> None:
        if self.world.plan.has_hub and not self._dialling:
            self._dialling = True
            self.world.time.after(self.world.chance.uniform(0.05, self.world.plan.redial_s), self._dial)

    def _dial(self) -> None:
        self._dialling = False
        if self.engine is None or self.session is not None:
            return
        hub = self.world.hub
        is_refused = self.world.keys is not None and self.credentials.is_revoked
        if self.is_offline or is_refused or not hub.is_up():
            self.dial()
            return
        self.session = SimSession(self.world, self, hub)
        if self.world.keys is not None:
            self.session.certificate = self.credentials.certificates[0]
        hub.sessions.append(self.session)
        self.world.time.after(self.world.latency_s(), self.session.begin)

    def restart_links(self) -> None:
        """End all sessions, so that the next ones begin with the present certificate."""
        if self.session is not None:
            self.session.cut(0.1, 0.1)
        self.world.direct.cut_sessions_of(self)
        if self.sealing is not None:
            self.sealing.check_all()

    def introduce(self) -> None:
        self.call(lambda engine: engine.introduce())

    def link_up(self, link: SimLink) -> None:
        super().link_up(link)
        self.receive_rumours()

    def link_down(self, link: SimLink, was_up: bool) -> None:
        super().link_down(link, was_up)
        if self.world.direct.note_end(link.session):
            return
        if self.session is link.session:
            self.session = None
            self.dial()

    def note_room(self, link: SimLink) -> None:
        self.engine.send_waiting()
        self.plan_tick()

    # --- applications
    def submit(self, submissions: Sequence[Submission]) -> bool:
        """Submit documents; return False if the process is not running."""
        if self.engine is None:
            return False
        self.engine.submit(submissions)
        self.plan_tick()
        return True

    def call(self, method: Callable[[LocalEngine], None]) -> None:
        if self.engine is not None:
            method(self.engine)
            self.plan_tick()

    def volatile(self) -> dict[str, object]:
        engine = self.engine
        sender, rows, handover = engine.sender, engine.rows, engine.handover
        facts: dict[str, object] = {
            name: getattr(sender, name) for name in ("nonces", "inquiry_counts", "negative_answers", "away_since")
        }
        facts |= {"doubts": rows.doubts, "unsettled": {dest for dest, count in rows.unsettled.items() if count}}
        facts |= {"out": handover.out, "orders": handover.orders, "flight": flying(rows.pump.lanes)}
        return {name: value for name, value in facts.items() if value}


class HubHost(Host):
    """A process of the hub, with one of the hub's stores."""

    def __init__(self, world: "World", name: str, own_store: Store, tables: Tables) -> None:
        super().__init__(world, name, own_store, tables)
        self.sessions: list[SimSession] = []
        self.certificates: KnownCertificates | None = None

    def build(self, store: WatchedStore) -> HubEngine:
        recovered = store.recover(self.clock.incarnation())
        return HubEngine(
            self.own_store,
            recovered,
            store,
            self.clock,
            self.world.plan.settings,
            self.directory(),
            self.plan_flush,
        )

    def directory(self) -> SimDirectory:
        """Return the directory of a process that starts."""
        keys = self.world.keys
        self.certificates = None if keys is None else keys.authority.directory(self.tables)
        return SimDirectory(self.world, self.certificates)

    def apply_revocations(self) -> None:
        """End the sessions of revoked certificates, and remove these from the directory, as ``HubNode`` does."""
        keys = self.world.keys
        if self.engine is None or keys is None or self.certificates is None:
            return
        for session in self.sessions:
            if session.certificate and keys.authority.is_revoked(session.certificate):
                session.cut(0.1, 0.0)
        for name in self.certificates.check_all():
            self.engine.send_certificates(parse_address(name))
        self.plan_tick()

    def open_link(self) -> SimLink | None:
        links = [s.listener_end for s in self.sessions if s.listener_end.up and s.listener_end.life == self.life]
        return self.world.chance.choice(links) if links else None

    def after_crash(self) -> None:
        sessions, self.sessions = self.sessions, []
        for session in sessions:
            session.cut(self.world.notice_s(), 0.0)

    def receive(self, link: SimLink, frames: Sequence[Frame]) -> None:
        self.world.faults.act_on_named(self, frames)
        super().receive(link, frames)

    def note_room(self, link: SimLink) -> None:
        self.engine.send_waiting(link)
        self.plan_tick()

    def volatile(self) -> dict[str, object]:
        custody = self.engine.custody
        facts: dict[str, object] = {
            "held": custody.rows_by_target,
            "storing": custody._storing,
            "flight": flying(custody.pump.lanes),
        }
        # With these faults an entry may stay until the session ends: a message was lost, Ack2 took a direct session, or
        # the receiver waits for a certificate.
        if self.world.plan.kinds.isdisjoint(("loss", "direct", *CHANGES_OF_KEYS)):
            facts["forwarded"] = [ident for s in self.engine.sessions.values() for ident in s.forwarded]
        return {name: value for name, value in facts.items() if value}


def flying(lanes: dict[str, Lane]) -> set[int]:
    """Return the numbers of the rows that count as under way."""
    return {row for lane in lanes.values() for row in lane.flight}
