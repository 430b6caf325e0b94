"""One run: a plan becomes nodes, network, applications and faults; then the faults stop, and all work must end."""

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random

import msgspec

from semq.umx_t.envelope import Data, Frame, Packet
from semq.umx_t.grid import Grid
from semq.umx_t.locator import Store
from semq.umx_t.status import Arrival, Outcome
from tests.memory_store.tables import Tables
from tests.simulation.direct import DirectPairs
from tests.simulation.disturbances.faults import CHANGES_OF_KEYS, Faults
from tests.simulation.documents.groups import not_reported
from tests.simulation.documents.pieces import SimulatedPieces
from tests.simulation.host import Host, HubHost, LocalHost
from tests.simulation.keys import KeyChanges
from tests.simulation.network import SimLink
from tests.simulation.oracle.messages import BackupRecord, SimulatedMessage
from tests.simulation.oracle.oracle import InvariantBroken
from tests.simulation.oracle.rules import Cell, CountingOracle
from tests.simulation.oracle.truth import was_taken_and_refused
from tests.simulation.plan import NAMES, Plan
from tests.simulation.timeline import EPOCH, Timeline

REST_S = 12_000.0  # time after the last fault within which all work must end
STEPS_MAX = 100_000  # of a run: many times as many as it needs, since a planted fault may let messages circulate
PASSED_ON_S = 10.0  # after the end of the work: time for the hub to pass on the last frames
# After that, no frame may be sent for this time. It exceeds the longest interval of inquiries about messages that are
# not in custody.
SILENCE_S = 400.0
AT_HUB_STORE_S = 150.0  # after the last fault: time at one store's process of the hub, before the nodes go to the next
Trace = Callable[[str], None]


@dataclass(slots=True)
class SimulatedHubStore:
    """A store of the hub and the process that serves it."""

    tables: Tables
    own_store: Store
    host: HubHost


@dataclass(slots=True)
class SeedResult:
    seed: int
    steps: int = 0
    faults: int = 0
    frames: int = 0
    messages: int = 0
    found: dict[str, str] = field(default_factory=dict)  #: a finding by kind: violations, lost, duplicated, unclean
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: frozenset[str] = frozenset()  #: of the plan
    cells: Counter[Cell] = field(default_factory=Counter)  #: events in each cell of the grids
    occasions: Counter[str] = field(default_factory=Counter)  #: of the rules, beside those in cells


# Outcomes that a message of class 3 may have although nothing of it has arrived: the hub refused the only copy, or the
# void marker.
REFUSALS = {Outcome.REJECTED, Outcome.UNKNOWN}


class World:
    def __init__(self, plan: Plan, trace: Trace | None = None) -> None:
        self.plan = plan
        self.time = Timeline()
        self.chance = Random(plan.seed * 7 + 1)
        self._trace = trace
        self.in_transit = 0  #: number of frames and of messages of the carrier
        self.unaware_of_cut = 0  #: number of ends of cut sessions whose nodes are not notified yet
        self.struck_off: set[str] = set()  #: institutions that the hub does not serve now
        self.keys = None if plan.kinds.isdisjoint(CHANGES_OF_KEYS) else KeyChanges(self)
        self.oracle, self.pieces = CountingOracle(self), SimulatedPieces(self)
        self.locals = [LocalHost(self, name) for name in NAMES[: plan.locals]]
        self.direct = DirectPairs(self)
        self.hub_stores = [self._new_hub_store(number) for number in range(1, plan.hub_stores + 1)]
        self.hub_store = self.hub_stores[0]
        self.lost: list[SimulatedHubStore] = []
        self.faults = Faults(self, Random(plan.seed * 7 + 2))

    def _new_hub_store(self, number: int) -> SimulatedHubStore:
        tables, own_store = Tables(f"hub{number}"), Store(2, "1", 1, number)
        return SimulatedHubStore(tables, own_store, self.new_hub_host(f"hub{number}", own_store, tables))

    def new_hub_host(self, name: str, own_store: Store, tables: Tables) -> HubHost:
        return HubHost(self, name, own_store, tables)

    # --- nodes and processes
    @property
    def hub(self) -> HubHost:
        """The process of the hub that nodes dial."""
        return self.hub_store.host

    def hub_processes(self) -> Sequence[HubHost]:
        """Return the processes of the hub, without those whose store was taken over."""
        return [hub_store.host for hub_store in self.hub_stores]

    def host(self, name: str) -> LocalHost:
        return self.locals[NAMES.index(name)]

    def host_of(self, tables: Tables) -> Host:
        hosts: list[Host] = [*self.locals, *(hub_store.host for hub_store in (*self.hub_stores, *self.lost))]
        return next(host for host in hosts if host.tables is tables)

    def link_between(self, receiver: Host, sender: Host) -> SimLink | None:
        """Return the receiver's end of the open session between two nodes; None without one."""
        local = receiver if isinstance(receiver, LocalHost) else sender
        assert isinstance(local, LocalHost)
        link: SimLink | None
        if isinstance(receiver, LocalHost) and isinstance(sender, LocalHost):
            link = self.direct.link_between(receiver, sender)
        elif local.session is None or local.session.is_cut:
            link = None
        else:
            link = local.session.dialler_end if receiver is local else local.session.listener_end
        if link is None:
            return None
        return link if link.up and link.owner.is_up(link.life) else None

    # --- chance
    def latency_s(self) -> float:
        """Draw the transit time of a frame."""
        return self.plan.latency_s * (0.5 + self.chance.random())

    def disk_s(self) -> float:
        """Draw the duration of a phase of a transaction."""
        return self.plan.disk_s * (0.2 + self.chance.random()) * self.faults.disk_factor

    def notice_s(self) -> float:
        """Draw the time after which a peer notices that the process at the other end of its session has ended."""
        return self.chance.choice((0.01, 0.3, 20.0)) if self.faults.active else 0.3

    # --- the hub's processes
    def take_over(self, old_ends_after_s: float) -> None:
        """Let a new process open the hub's store; the old one ends ``old_ends_after_s`` later."""
        old = self.hub_store.host
        old.is_retired = True
        self.time.after(old_ends_after_s, old.crash)
        self.hub_store.host = self.new_hub_host(old.name + "'", old.own_store, old.tables)
        self.hub_store.host.start()

    def switch_hub_store(self, *, keep_old: bool) -> None:
        """Let the nodes log in at the next store of the hub."""
        old = self.hub_store
        self.hub_store = self.hub_stores[(self.hub_stores.index(old) + 1) % len(self.hub_stores)]
        for local in self.locals:
            if local.session is not None:
                local.session.cut(0.1, 0.1)
        if not keep_old:
            old.host.crash(restart_s=60.0)

    def lose_hub_store(self, hub_store: SimulatedHubStore) -> Store:
        """Remove a store of the hub and its process."""
        if hub_store is self.hub_store:
            self.switch_hub_store(keep_old=True)
        self.hub_stores.remove(hub_store)
        self.lost.append(hub_store)
        self.trace("lost", hub_store.host.name, "")
        hub_store.host.is_retired = True
        hub_store.host.crash()
        hub_store.tables.restore(Tables(hub_store.tables.store_uuid))
        self.oracle.restored(hub_store.tables, BackupRecord())
        return hub_store.own_store

    # --- the run
    def run(self) -> SeedResult:
        """Run the plan."""
        result = SeedResult(self.plan.seed)
        try:
            self._begin()
            self._run_until(self.plan.faulty_s)
            self._heal()
            at_rest = self._run_until(self.time.now + REST_S, self._is_at_rest)
            self._check_end(result, at_rest)
        except InvariantBroken as broken:
            result.found[broken.kind] = str(broken)
        except Exception:  # noqa: BLE001
            result.found["violations"] = traceback.format_exc()
        result.steps, result.faults, result.frames = self.time.steps, self.faults.count, self.oracle.frames
        result.messages = len(self.oracle.messages)
        result.kinds, result.occasions = self.plan.kinds, self.oracle.counts
        result.outcomes.update(str(m.outcome.name if m.outcome else None) for m in self.oracle.messages.values())
        return result

    def _begin(self) -> None:
        for hub_store in self.hub_stores:
            hub_store.host.start()
        for host in self.locals:
            host.start()
            host.application.be_present(self.chance.randint(1, 3))
        self.direct.dial()
        for when, name, documents in self.plan.documents:
            self.time.at(when, self.host(name).application.submit, documents)
        self.pieces.begin()
        self.faults.schedule()

    def _run_until(self, end: float, stop: Callable[[], bool] | None = None) -> bool:
        step = self.time.step
        while stop is None or not stop():
            if not step(end) or self.time.steps > STEPS_MAX:
                return False
        return True

    def _heal(self) -> None:
        """Stop the faults and start everything that is down."""
        self.trace("HEAL", "", "")
        self.faults.active = False
        self.faults.disk_factor = 1.0
        self.struck_off.clear()
        if self.keys is not None:
            self.keys.heal()
        for hub_store in self.hub_stores:
            hub_store.host.start()
        for host in self.locals:
            host.is_offline = False
            host.start()
            host.dial()
            host.application.heal()
            if host.session is not None and (host.session.dialler_end.stalled or host.session.listener_end.stalled):
                host.session.cut(0.1, 0.1)
        self.direct.heal()
        if len(self.hub_stores) > 1:
            self.time.after(AT_HUB_STORE_S, self._serve_hub_stores)

    def _serve_hub_stores(self) -> None:
        # Each process of the hub answers for one store only, so the nodes log in at each in turn.
        if any(host.tables.outbound or host.tables.pending or host.tables.submitted for host in self._hosts()):
            self.switch_hub_store(keep_old=True)
        self.time.after(AT_HUB_STORE_S, self._serve_hub_stores)  # a late frame may add rows

    # --- the end
    def _hosts(self) -> Sequence[Host]:
        return [*self.locals, *(hub_store.host for hub_store in self.hub_stores)]

    def _is_at_rest(self) -> bool:
        if (
            self.in_transit
            or self.unaware_of_cut
            or any(host.tables.outbound or host.tables.pending or host.tables.submitted for host in self._hosts())
        ):
            return False
        submitted = self.pieces.manifests + sum(len(documents) for _, _, documents in self.plan.documents)
        all_answered = self.pieces.is_idle and len(self.oracle.answered) == submitted
        # A restarting process has no engine.
        return all_answered and all(host.is_up() and host.is_idle for host in self._hosts())

    def _check_end(self, result: SeedResult, at_rest: bool) -> None:
        for message in self.oracle.messages.values():
            self._check_message(result, message)
        if not at_rest:
            remaining = [
                f"{host.name}: {len(host.tables.outbound)} in tb_0031, {len(host.tables.pending)} in tb_0030,"
                f" {len(host.tables.submitted)} scheduled"
                for host in self._hosts()
                if host.tables.outbound or host.tables.pending or host.tables.submitted
            ]
            limit = f"{REST_S:.0f} s" if self.time.steps <= STEPS_MAX else f"{STEPS_MAX} steps"
            result.found["unclean"] = f"I3: not at rest after {limit}: {'; '.join(remaining)}"
            return
        self._check_ledgers(result)
        for host in self._hosts():
            if kept := host.volatile():
                result.found["unclean"] = f"I3: {host.name} still keeps in memory {kept}"
        self._run_until(self.time.now + PASSED_ON_S)
        frames, hub_store = self.oracle.frames, self.hub_store
        self._run_until(self.time.now + SILENCE_S, lambda: self.hub_store is not hub_store)
        if self.oracle.frames != frames:
            result.found["unclean"] = f"I5: {self.oracle.frames - frames} frames after everything was at rest"
        # With ``hell``, an old record of presence may arrive again.
        if "groups" in self.plan.kinds and not self.plan.hell and self.hub_store is hub_store:
            missing = not_reported(self.locals)
            self.oracle.demand(not missing, "2.2", f"present users are not known to the partners: {'; '.join(missing)}")

    @property
    def now_ms(self) -> int:
        """The true time in milliseconds since 1970 UTC."""
        return int((EPOCH.timestamp() + self.time.now) * 1000)

    def _check_message(self, result: SeedResult, message: SimulatedMessage) -> None:
        if not message.is_class3 or message.excused:
            return
        expected = {
            Outcome.DELIVERED: Arrival.RECV,
            Outcome.REJECTED: Arrival.REJ,
            Outcome.CANCELLED: Arrival.VOID,
        }
        is_contradiction = message.outcome in expected and expected[message.outcome] is not message.recorded
        if message.outcome is None:
            result.found.setdefault("unclean", f"I3: no outcome: {message}")
        if not message.recorded_ever and not message.outcomes_ever & REFUSALS:
            result.found["lost"] = f"I1: never arrived: {message}"
        elif self._needs_no_record(message):
            return
        elif message.recorded is Arrival.RECV and not (message.done and (message.deliveries or message.is_piece)):
            result.found["lost"] = f"I1: never given to the application: {message}"
        elif message.recorded_ever and is_contradiction:
            result.found["violations"] = f"I6: the final outcome contradicts the receiver's record: {message}"

    @staticmethod
    def _needs_no_record(message: SimulatedMessage) -> bool:
        """Whether a message rightly ended REJECTED: the hub or an operator refused it, or it had expired."""
        has_expired = message.expires_at and message.recorded is Arrival.VOID
        is_explained = message.recorded is not Arrival.RECV or was_taken_and_refused(message)
        return message.outcome is Outcome.REJECTED and is_explained and bool(message.may_be_refused or has_expired)

    def _check_ledgers(self, result: SeedResult) -> None:
        """Check that the receivers' ledgers are empty, except after a restore, which loses floors."""
        messages = self.oracle.messages.values()
        if any(m.source_restored or m.dest_restored for m in messages):
            return
        # The floor passes a refused message, but the receiver gets the floor only with the next message of the stream.
        silent = {(m.source, m.lk0.inc) for m in messages if m.outcome in REFUSALS and not m.recorded_ever}
        for host in self.locals:
            remaining = [slot for slot in host.tables.recorded if (slot.stream.store.id, slot.stream.inc) not in silent]
            if remaining:
                result.found["unclean"] = f"I3: {len(remaining)} ledger entries left at {host.name}"

    # --- tracing
    def trace(self, what: str, where: str, fact: object) -> None:
        if self._trace is not None:
            self._trace(f"{self.time.now:10.4f} {where:6} {what:12} {show(fact)}")

    def trace_all(self, what: str, where: str, frames: Sequence[Frame]) -> None:
        if self._trace is not None:
            for frame in frames:
                self.trace(what, where, frame)


def show(fact: object) -> str:
    """Return the important fields of a frame, or the text of another fact."""
    if isinstance(fact, Data):
        e = fact.envelope
        void = " void" if e.void else ""
        return f"MSG {e.lk0} sid={e.sid} floor={e.floor} att={e.att} prev={e.prev} lk1={e.lk1}{void}"
    if isinstance(fact, Packet):
        records = "; ".join(map(show_record, fact.records))
        return f"{fact.function.name}.{fact.primitive.name} {fact.source}->{fact.target} {records}"
    return str(fact)


def show_record(record: msgspec.Struct) -> str:
    """Return the set fields of a record, without numbers of stores, digests and times."""
    fields = msgspec.structs.asdict(record).items()
    hidden = ("semq_id", "semq_db_id", "digest", "at")
    result = {name: value.name if isinstance(value, Enum) else value for name, value in fields if value}
    return " ".join(f"{name}={value}" for name, value in result.items() if not name.endswith(hidden))


class CellCoverage:
    """Counts the events in each cell of the grids while the context is open."""

    def __init__(self) -> None:
        self.cells: Counter[Cell] = Counter()
        self._step = Grid.step

    def __enter__(self) -> "CellCoverage":
        cells, step = self.cells, self._step

        # ``_name_`` for speed: ``name`` is computed at each access.
        def watched(grid: Grid, standing: object, on: object) -> object:  # type: ignore[type-arg]
            cells[grid.name, standing._name_, on._name_] += 1  # type: ignore[attr-defined]
            return step(grid, standing, on)

        Grid.step = watched  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *args: object) -> None:
        Grid.step = self._step  # type: ignore[method-assign]
