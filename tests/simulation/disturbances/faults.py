"""The table of fault kinds, and the effect of each.

A kind with a rate happens at random times; others concern the whole run. Disasters are the losses that PROTOCOL.md
section 19 excuses.
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from semq.engine.hub.copy_acts import ActOnCopies
from semq.umx_t.envelope import Data, Frame, Function, Packet
from semq.umx_t.grids import SenderEvent, SenderState
from semq.umx_t.locator import Pos, Store
from semq.umx_t.status import Direction, SendStatus
from tests.memory_store.store import CommitFault
from tests.memory_store.tables import Tables
from tests.simulation.disturbances.drills import drill, next_to_go
from tests.simulation.disturbances.namesakes import another
from tests.simulation.disturbances.rumours import rumours, rumours_of_copies
from tests.simulation.oracle.messages import BackupRecord

if TYPE_CHECKING:
    from tests.simulation.host import Host, LocalHost
    from tests.simulation.keys import KeyChanges
    from tests.simulation.network import SimLink
    from tests.simulation.world import World

# Kind: occurrences per 100 seconds (0: for the whole run).
KINDS: dict[str, float] = {
    "cut": 5.0,  # a session ends
    "half_open": 2.0,  # a session ends, which one or both ends notice late
    "stall": 2.0,  # one direction of a session transports no frames
    "offline": 2.0,  # a node is offline
    "crash_local": 2.0,
    "crash_hub": 2.0,
    "crash_at_step": 0.0,  # a process ends between two steps of work
    "commit": 0.0,  # commits fail, are written without an answer, or are decided twice
    "takeover": 1.0,  # another process takes over the hub's store; the old one notices it later
    "other_store": 1.5,  # the nodes log in at a process of the hub with another store
    "clock_jump": 2.0,
    "slow_disk": 1.5,
    "absent": 3.0,  # an application stops receiving
    "think": 0.0,  # applications take long for a document
    "nack": 0.0,  # applications return or fail documents; some are requeued afterwards
    "cancel": 0.0,
    "hold": 0.0,
    "expiry": 0.0,
    "poison": 0.0,  # documents that their receivers cannot open
    "refusal": 0.0,  # the hub refuses documents
    "operator": 0.0,  # a person resends or cancels a document
    "act_on_copies": 2.0,  # an operator of the hub refuses or resends stored copies
    "strike_off": 0.5,  # the hub does not serve an institution
    "loop": 0.0,  # documents for the own node
    "burst": 0.0,  # documents with one order key and different priorities are submitted together
    "stutter": 0.0,  # applications answer twice
    "rumours": 0.0,  # false hints of the hub
    "replay": 0.0,  # old frames arrive again
    "overtake": 0.0,  # a document with an order key arrives after later ones
    "restore_local": 0.7,  # a store is restored from an older backup
    "restore_hub": 0.7,
    "wipe_hub": 0.5,  # a store of the hub is lost, and an empty one takes its name
    "lose_store": 0.5,  # a store of the hub is lost; an operator declares this later
}
# Kinds that a plan or a focus adds. ``second_thoughts``: more documents are failed, and more are answered twice.
ADDED = (
    "direct", "schedule", "groups", "no_hub", "second_thoughts", "pieces", "instances", "signed", "renew", "revoke",
    "enrol",
)  # fmt: skip
# Occurrences per 100 seconds: cuts of direct sessions; removals of pieces that wait for their manifest; new keys beside
# the earlier ones; revoked keys; new keys of nodes that have lost the earlier ones.
ADDED_RATES = {"direct": 6.0, "pieces": 2.0, "renew": 2.0, "revoke": 3.0, "enrol": 1.0}
CHANGES_OF_KEYS = ("renew", "revoke", "enrol")  # kinds of networks with certificates
COPIES_S = 2.0  # between looks whether a store of the hub has copies
# Kinds that need a hub.
OF_THE_HUB = (
    "crash_hub", "takeover", "other_store", "act_on_copies", "strike_off", "restore_hub", "wipe_hub", "lose_store",
    "rumours", "refusal", "revoke",
)  # fmt: skip
# Kinds of the mode ``hell``. ``loss``: frames are lost; ``ghosts``: frames arrive late or twice.
HELL_ONLY = ("loss", "ghosts", "replay", "rumours", "overtake")
DISASTERS = ("restore_local", "restore_hub", "wipe_hub", "lose_store")
ALL_KINDS = frozenset({*KINDS, *ADDED, *HELL_ONLY})


class Faults:
    def __init__(self, world: "World", chance: Random) -> None:
        self.world = world
        self.chance = chance
        self.active = True
        self.count = 0
        self.disk_factor = 1.0
        self.kinds = world.plan.kinds
        self._crashes_at_steps = "crash_at_step" in self.kinds
        self._withheld: list[tuple[SimLink, Frame]] = []

    def schedule(self) -> None:
        end = self.world.plan.faulty_s
        for kind in sorted(self.kinds):
            per_100_s = (KINDS | ADDED_RATES).get(kind, 0.0)
            rate = per_100_s / 100.0 * self.chance.choice((0.5, 1.0, 2.0))
            if kind in self.world.plan.focus:
                rate *= 6.0 if kind in DISASTERS else 3.0
            when = self.chance.expovariate(rate) if rate else end
            while when < end:
                self.world.time.at(when, self._happen, kind)
                when += self.chance.expovariate(rate)

    def _happen(self, kind: str) -> None:
        if self.active:
            self.count += 1
            self.world.trace("FAULT", kind, "")
            getattr(self, kind)()

    # --- sessions
    def _some_local(self) -> "LocalHost":
        return self.chance.choice(self.world.locals)

    def cut(self) -> None:
        session = self._some_local().session
        if session is not None:
            session.cut(self.chance.uniform(0.0, 0.5), self.chance.uniform(0.0, 0.5))

    def half_open(self) -> None:
        session = self._some_local().session
        if session is not None:
            near, far = self.chance.choice(((20.0, 0.2), (0.2, 20.0), (20.0, 25.0)))
            session.cut(near * self.chance.random(), far * self.chance.random())

    def stall(self) -> None:
        session = self._some_local().session
        if session is not None:
            link = self.chance.choice((session.dialler_end, session.listener_end))
            link.stalled = True
            self.world.time.after(self.chance.uniform(1.0, 20.0), session.cut, 0.1, 0.1)

    def direct(self) -> None:
        session = self.chance.choice(self.world.direct.all).session
        if session is None:
            return
        if self.chance.random() < 0.3:
            link = self.chance.choice((session.dialler_end, session.listener_end))
            link.stalled = True
            self.world.time.after(self.chance.uniform(1.0, 20.0), session.cut, 0.1, 0.1)
        else:
            late = self.chance.choice((0.5, 0.5, 20.0))
            session.cut(late * self.chance.random(), late * self.chance.random())

    def offline(self) -> None:
        host = self._some_local()
        host.is_offline = True
        if host.session is not None:
            host.session.cut(0.1, self.chance.choice((0.1, 20.0)))
        if not self.world.plan.has_hub:
            self.world.direct.cut_sessions_of(host)
        self.world.time.after(self.chance.choice((5.0, 30.0, 100.0)), self._back_online, host)

    def _back_online(self, host: "LocalHost") -> None:
        host.is_offline = False
        host.dial()

    # --- processes
    def crash_local(self) -> None:
        self._some_local().crash(self.chance.choice((0.1, 2.0, 30.0)))

    def crash_hub(self) -> None:
        self.world.hub.crash(self.chance.choice((0.1, 2.0, 30.0)))

    def takeover(self) -> None:
        self.world.take_over(self.chance.choice((0.1, 15.0)))

    def other_store(self) -> None:
        self.world.switch_hub_store(keep_old=self.chance.random() < 0.5)

    def clock_jump(self) -> None:
        host = self._some_local()
        host.set_clock(self.chance.choice((-86_400.0, -30.0, 0.0, 30.0, 86_400.0)))

    def slow_disk(self) -> None:
        self.disk_factor = 50.0
        self.world.time.after(self.chance.uniform(1.0, 10.0), self._fast_disk)

    def _fast_disk(self) -> None:
        self.disk_factor = 1.0

    def crashes(self, host: "Host", where: str) -> bool:
        """Draw whether the process ends at this step; if so, end it."""
        if not self._crashes_at_steps or not self.active:
            return False
        if self.chance.random() >= self.world.plan.crash_at_step:
            return False
        self.count += 1
        self.world.trace("FAULT", "crash at step", where)
        host.crash(self.chance.choice((0.05, 1.0, 10.0)))
        return True

    def commit_fault(self, host: "Host") -> CommitFault:
        if not self.active or "commit" not in self.kinds or self.chance.random() > 0.2:
            return CommitFault.NONE
        self.count += 1
        return self.chance.choice(
            (
                CommitFault.ROLLED_BACK,
                CommitFault.ANSWER_LOST,
                CommitFault.ANSWER_LOST,
                CommitFault.REDONE,
                CommitFault.REDONE,
            )
        )

    def reopening_s(self) -> float:
        """Draw the seconds that a process continues after the loss of its store."""
        return self.chance.choice((0.0, 0.0, 0.05, 2.0)) if self.active else 0.0

    # --- applications
    def absent(self) -> None:
        application = self._some_local().application
        application.be_present(0)
        self.world.time.after(self.chance.choice((1.0, 10.0, 60.0)), application.be_present, self.chance.randint(1, 3))

    def think_s(self) -> float:
        if self.active and "think" in self.kinds:
            return self.chance.choice((0.0, 0.5, 10.0))
        return self.chance.choice((0.0, 0.01))

    def stutters(self) -> bool:
        probability = 0.8 if "second_thoughts" in self.kinds else 0.3
        return self.active and "stutter" in self.kinds and self.chance.random() < probability

    def answer(self, deliveries: int) -> str:
        if not self.active or "nack" not in self.kinds or deliveries > 5:
            return "done"
        weights = (1, 1, 4, 4) if "second_thoughts" in self.kinds else (6, 3, 0.6, 0.6)
        return self.chance.choices(("done", "back", "fail", "fail, then requeue"), weights)[0]

    def refuses(self) -> bool:
        """Draw whether the hub refuses a document of content type REFUSED_AT_TIMES."""
        return self.active and self.chance.random() < 0.5

    def pieces(self) -> None:
        self.world.pieces.remove(self.chance.choice(list(self.world.pieces.transfers.values())))

    # --- keys
    def renew(self) -> None:
        self._keys.renew(self._some_local())

    def revoke(self) -> None:
        self._keys.revoke(self._some_local(), self.chance.choice(("active", "active", "all", "older")))

    def enrol(self) -> None:
        self._keys.enrol(self._some_local())

    @property
    def _keys(self) -> "KeyChanges":
        assert self.world.keys is not None
        return self.world.keys

    # --- operators of the hub
    def act_on_copies(self) -> None:
        """Refuse or resend copies at a store of the hub; some acts name a row that does not exist."""
        host = self.chance.choice(self.world.hub_stores).host
        if host.engine is None:
            return
        held = [row.object_id for row in host.tables.outbound.values()]
        ids = self.chance.sample(held, self.chance.randint(0, len(held))) + [7] * self.chance.randint(0, 1)
        self._act(host, ids)

    def act_on_named(self, host: "Host", frames: Sequence[Frame]) -> None:
        """Draw whether an operator acts on copies that the frames name."""
        if not self.active or "act_on_copies" not in self.kinds:
            return
        relayed, probability = host.tables.relayed, 0.5 if "act_on_copies" in self.world.plan.focus else 0.2
        if (
            ids := [relayed[ident] for ident in _idents(frames) if ident in relayed]
        ) and self.chance.random() < probability:
            self.count += 1
            self._act(host, ids, refusals=0.9, only_copies=0.8)

    def refuse(self, host: "Host", ids: list[int]) -> None:
        """Let an operator refuse copies."""
        if ids:
            self._act(host, ids, refusals=1.0, only_copies=1.0)

    def resend(self, host: "Host", ids: list[int]) -> None:
        """Let an operator send copies once more."""
        if ids:
            self._act(host, ids, refusals=0.0)

    def _act(self, host: "Host", ids: list[int], refusals: float = 0.7, only_copies: float = 0.5) -> None:
        act = ActOnCopies("ops", "asked to", lambda counts: None, lambda error: None)
        if self.chance.random() < refusals:
            host.engine.copy_acts.refuse(ids, act, only_copies=self.chance.random() < only_copies)
        else:
            host.engine.copy_acts.resend(ids, act)
        host.plan_tick()

    def strike_off(self) -> None:
        self._strike_off(self._some_local().name)

    def _strike_off(self, name: str) -> None:
        self.world.struck_off.add(name)
        self.world.time.after(self.chance.choice((1.0, 20.0, 60.0)), self.world.struck_off.discard, name)

    # --- the network in the mode ``hell``
    def draw_arrivals(self, frame: Frame) -> tuple[bool, list[float]]:
        """Draw whether a frame arrives in order, and the seconds after which it arrives late or again."""
        if not self.active or _is_presence(frame):
            return True, []
        if "loss" in self.kinds and self.chance.random() < 0.04:
            self.count += 1
            return False, []
        if "ghosts" in self.kinds and self.chance.random() < 0.08:
            self.count += 1
            delay = self.chance.choice((0.01, 1.0, 20.0, 60.0)) * self.chance.random()
            return self.chance.random() < 0.7, [delay]
        return True, []

    def draw_hints(self, link: "SimLink", arrived: list[Frame]) -> list[Frame]:
        """Draw false hints about rows of the node at this end of a session."""
        if link.owner.own_store.type == link.other.own_store.type == 1:
            return []  # only the hub makes false statements
        goal = self.world.plan.goal
        if self.active and goal is not None and link.owner.own_store.type == 1 and self.chance.random() < 0.7:
            self.count += 1
            return drill(self.chance, link, goal)
        probability = 0.5 if "rumours" in self.world.plan.focus else 0.2
        if not self.active or "rumours" not in self.kinds or self.chance.random() > probability:
            return []
        self.count += 1
        if link.owner.own_store.type == 1:
            return rumours(self.chance, link, arrived)
        return rumours_of_copies(self.chance, link)

    def act_in_doubt(self, host: "LocalHost") -> None:
        """Draw whether a person acts on a message whose custodian is in doubt, or at which the drill aims."""
        goal = self.world.plan.goal
        aims = goal is not None and goal[2] in (SenderEvent.resend, SenderEvent.cancel, SenderEvent.claim)
        if not self.active or "operator" not in self.kinds or self.chance.random() > (0.5 if aims else 0.1):
            return
        rows, doubts = host.tables.outbound, host.engine.rows.doubts
        if goal is not None and goal[1:] == (SenderState.FINAL, SenderEvent.claim):
            lk0s = [row.lk0 for row in next_to_go(host)]  # cancelled in the unit of the claim
        elif goal is not None and aims:
            lk0s = [rows[i].lk0 for i, doubt in doubts.items() if i in rows and doubt is goal[1]]
        else:
            lk0s = [rows[i].lk0 for i in doubts if i in rows]
        if rows and self.chance.random() < 0.2:
            lk0s = [another(self.chance.choice(list(rows.values())).lk0)]  # names no row
        if lk0s:
            self.count += 1
            what = SenderEvent.resend if goal is not None and goal[2] is SenderEvent.resend else SenderEvent.cancel
            host.application.act(what.name, self.chance.choice(lk0s))

    def draw_replay(self, link: "SimLink", frame: Frame) -> None:
        """Draw whether a frame arrives again; if so, plan this."""
        if not self.active or "replay" not in self.kinds or self.chance.random() > 0.15 or _is_presence(frame):
            return
        self.count += 1
        self.world.in_transit += 1
        delay = self.chance.choice((0.1, 5.0, 60.0)) * self.chance.random()
        self.world.time.after(delay, link.session.deliver_late, link.owner, link.other, frame)

    def withholds(self, link: "SimLink", frame: Frame) -> bool:
        """Draw whether a frame with an ordered document is delayed, at most 20 s."""
        is_ordered = isinstance(frame, Data) and frame.envelope.attributes.order_key and link.other.own_store.type == 1
        if not self.active or "overtake" not in self.kinds or not is_ordered or self.chance.random() > 0.3:
            return False
        self.count += 1
        self.world.in_transit += 1
        entry = link, frame
        self._withheld.append(entry)
        self.world.time.after(self.chance.uniform(1.0, 20.0), self._deliver_withheld, entry)
        return True

    def deliver_to_open_unit(self, host: "Host") -> None:
        """Deliver some withheld documents whose successors the node has recorded."""
        recorded = {(row.lk0.store, row.prev) for row in host.tables.pending.values()} if self._withheld else set()
        for entry in self._withheld[:]:
            link, frame = entry
            assert isinstance(frame, Data)
            lk0 = frame.envelope.lk0
            is_followed = link.other is host and (lk0.store, Pos(lk0.inc, frame.envelope.sid)) in recorded
            if is_followed and self.chance.random() < 0.5:
                self._deliver_withheld(entry)

    def _deliver_withheld(self, entry: tuple["SimLink", Frame]) -> None:
        if entry in self._withheld:
            self._withheld.remove(entry)
            link, frame = entry
            link.session.deliver_late(link.owner, link.other, frame)

    # --- disasters
    def restore_local(self) -> None:
        """Restore a store, often one that has unsent documents now: the backup brings them back as unsent."""
        waiting = [host for host in self.world.locals if _unsent_to(host.tables)]
        host = self.chance.choice(waiting) if waiting and self.chance.random() < 0.7 else self._some_local()
        self._plan_restore(host.tables)

    def restore_hub(self) -> None:
        self._plan_restore(self.chance.choice(self.world.hub_stores).tables)

    def _plan_restore(self, tables: Tables) -> None:
        when = self.chance.choice((1.0, 10.0, 50.0))
        self.world.time.after(when, self._restore, tables, tables.snapshot(), self.world.oracle.backup(tables))

    def wipe_hub(self) -> None:
        tables = self.chance.choice(self.world.hub_stores).tables
        self._restore(tables, Tables(tables.store_uuid), BackupRecord())

    def lose_store(self) -> None:
        """Lose a store with copies; while there is none, wait for it."""
        stores = self.world.hub_stores if len(self.world.hub_stores) > 1 else []
        if holding := [each for each in stores if each.tables.outbound]:
            store = self.world.lose_hub_store(self.chance.choice(holding))
            self.world.time.after(self.chance.choice((0.1, 20.0, 100.0)), self.retire, store)
        elif self.active and stores:
            self.world.time.after(COPIES_S, self.lose_store)

    def retire(self, store: Store) -> None:
        """Declare the loss at the processes of the hub, again every 20 s: a restore may lose the declaration."""
        name = store.semq_id, store.semq_db_id
        for hub_store in self.world.hub_stores:
            engine = hub_store.host.engine
            if engine is not None and name not in engine.custody.stores.retired:
                engine.custody.stores.retire(name, "ops", "lost", lambda was: None, lambda error: None)
                hub_store.host.plan_tick()
        self.world.time.after(20.0, self.retire, store)

    def _restore(self, tables: Tables, backup: Tables, record: BackupRecord) -> None:
        if not self.active:
            return
        host = self.world.host_of(tables)
        self.world.trace("restored", host.name, "")
        host.crash()
        tables.restore(backup)
        self.world.oracle.restored(tables, record)
        targets = _unsent_to(tables)
        if targets and "strike_off" in self.kinds and self.chance.random() < 0.8:
            self._strike_off(self.chance.choice(targets))
        self.world.time.after(self.chance.choice((0.1, 5.0)), host.start)


def _unsent_to(tables: Tables) -> list[str]:
    """Return the targets of unsent own documents."""
    rows = (row for row in tables.outbound.values() if row.ss_status is SendStatus.SS_INIT)
    return sorted({row.target.id for row in rows if row.direction is Direction.OWN})


def _idents(frames: Sequence[Frame]) -> list[str]:
    markers = [frame.envelope.ident for frame in frames if isinstance(frame, Data) and frame.envelope.void]
    packets = (frame for frame in frames if isinstance(frame, Packet) and not _is_presence(frame))
    return list(dict.fromkeys((*markers, *(record.ident for packet in packets for record in packet.records))))


def _is_presence(frame: Frame) -> bool:
    """Return whether a frame has records of presence, which no fault affects."""
    return isinstance(frame, Packet) and frame.function is Function.PRESENCE
