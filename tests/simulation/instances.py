"""Runs with several instances of the hub: a store each, a carrier that loses, doubles and delays, and homes that move.

Nodes dial any instance. The fault ``other_store`` moves the home of one node. Stores are replaced: all homes move out,
the empty store is retired, and another is added.
"""

from collections import deque
from dataclasses import replace
from random import Random

from semq.carrier.batch import KEY_BYTES, open_batch, pack, seal
from semq.engine.hub.carrier import Acknowledged, Message, Passed, StoreFrames, StoreName
from semq.engine.hub.instances import Cluster, Instances
from semq.engine.hub_engine import HubEngine
from semq.errors import SemqError
from semq.umx_t.address import Address
from semq.umx_t.envelope import Packet
from semq.umx_t.locator import Store
from tests.memory_store.tables import Tables
from tests.simulation.disturbances.drills import Goal
from tests.simulation.host import HubHost, WatchedStore
from tests.simulation.network import SimLink
from tests.simulation.plan import Plan, draw
from tests.simulation.world import SeedResult, SimulatedHubStore, Trace, World

FOLLOW_S = 5.0  # an instance reads changed homes within this time
LOST, DOUBLED, LATE = 0.03, 0.03, 0.05  # shares of messages on the carrier, while there are faults
REPLAYED, HISTORY = 0.03, 300  # share of messages beside which an old one is sent again; number of old ones
LATE_S = 15.0  # longest delay of a message: the broker drops older ones
AWAY_EVERY_S = 60.0  # mean time between losses of the carrier
REPLACING = 4  # every fourth seed replaces stores; in more seeds, moved homes would hide other faults
REPLACED_EVERY_S = 60.0  # mean time between replacements
EMPTY_CHECK_S = 1.0  # between checks whether a store is empty
KEY = bytes(KEY_BYTES)
COUNTED = StoreFrames | Passed | Acknowledged  # messages that have to arrive before a run is at rest
Destination = tuple[str, int | StoreName]


class SimCarrier:
    def __init__(self, world: "InstancesWorld", chance: Random) -> None:
        self.world = world
        self.chance = chance
        self.is_away = False
        self.sent_at: dict[tuple[int, int], float] = {}  #: by life and number of the message
        #: captured messages, which somebody without the hub's key sends again
        self._history: deque[tuple[InstanceHost, int, int, Destination, Message]] = deque(maxlen=HISTORY)
        self._numbers: dict[int, int] = {}  #: by life: number of its last message
        self._last: dict[tuple[int, Destination], float] = {}  #: arrival of the last message, by life and destination

    def send(self, origin: "InstanceHost", life: int, destination: Destination, message: Message) -> None:
        if not origin.is_joined:
            if destination[0] == "store" and isinstance(destination[1], tuple):
                self.world.time.after(0.0, self._returned, origin, life, destination[1], message)
            return
        active = self.world.faults.active
        copies, number = 1, self._next_number(life)
        self.sent_at[life, number] = self.world.time.now
        if active:
            drawn = self.chance.random()
            copies = 0 if drawn < LOST else 2 if drawn < LOST + DOUBLED else 1
            self.world.faults.count += copies != 1
        if active and self._history and self.chance.random() < REPLAYED:
            self.world.faults.count += 1
            self._plan_arrival(self.world.time.now + self.world.latency_s(), *self.chance.choice(self._history))
        self._history.append((origin, life, number, destination, message))
        for _ in range(copies):
            when = self.world.time.now + self.world.latency_s()
            if active and self.chance.random() < LATE:
                when += self.chance.uniform(0.0, LATE_S)
            else:
                when = self._last[life, destination] = max(when, self._last.get((life, destination), 0.0))
            self._plan_arrival(when, origin, life, number, destination, message)

    def _plan_arrival(
        self, when: float, origin: "InstanceHost", life: int, number: int, destination: Destination, message: Message
    ) -> None:
        if isinstance(message, COUNTED):
            self.world.in_transit += 1
        self.world.time.at(when, self._arrive, origin, life, number, destination, message)

    def _next_number(self, life: int) -> int:
        self._numbers[life] = self._numbers.get(life, 0) + 1
        return self._numbers[life]

    def _arrive(
        self, origin: "InstanceHost", life: int, number: int, destination: Destination, message: Message
    ) -> None:
        if isinstance(message, COUNTED):
            self.world.in_transit -= 1
        kind, name = destination
        members = [host for host in self.world.instances() if host.is_joined]
        if kind == "all":
            for host in members:
                if host.incarnation != life:
                    host.receive_message(life, number, message, to_front=False)
            return
        targets = [host for host in members if name == (host.incarnation if kind == "front" else host.store_name)]
        if kind == "store":
            targets = [host for host in targets if not host.is_retired]  # an exclusive queue: the newest owner has it
        if targets:
            targets[0].receive_message(life, number, message, to_front=kind == "front")
        elif isinstance(name, tuple):
            self._returned(origin, life, name, message)
        elif origin.is_alive(life):
            origin.others.note_ended(name)
            origin.plan_tick()

    def _returned(self, origin: "InstanceHost", life: int, store: StoreName, message: Message) -> None:
        if origin.is_alive(life):
            origin.others.note_returned(store, message)
            origin.plan_tick()


class CarrierEnd:
    def __init__(self, host: "InstanceHost", life: int) -> None:
        self._host, self._life = host, life

    def to_store(self, store: StoreName, message: Message) -> None:
        self._send(("store", store), message)

    def to_front(self, life: int, message: Message) -> None:
        self._send(("front", life), message)

    def to_all(self, message: Message) -> None:
        self._send(("all", 0), message)

    def _send(self, destination: Destination, message: Message) -> None:
        world = self._host.world_of_instances
        frame = message.frame if isinstance(message, Passed) else None
        if isinstance(frame, Packet) and frame.source.node == self._host.address:
            world.oracle.stated(self._host, frame)
        if world.plan.codec:
            name = str(destination)
            [message] = open_batch(KEY, name, seal(KEY, name, self._life, 1, [pack(message)]), unreadable).messages
        world.carrier.send(self._host, self._life, destination, message)


def unreadable(error: SemqError) -> None:
    raise error


class InstanceHost(HubHost):
    """One of several instances of the hub."""

    def __init__(self, world: "InstancesWorld", name: str, own_store: Store, tables: Tables) -> None:
        super().__init__(world, name, own_store, tables)
        self.world_of_instances = world
        self.store_name: StoreName = own_store.semq_id, own_store.semq_db_id
        self.homes = dict(world.homes)  #: as last read
        self.incarnation = 0
        self.is_joined = False

    def build(self, store: WatchedStore) -> HubEngine:
        recovered = store.recover(self.clock.incarnation())
        self.incarnation, self._began = recovered.inc, self.world.time.now
        self._processed: set[tuple[int, int]] = set()
        self.homes = dict(self.world_of_instances.homes)
        cluster = Cluster(CarrierEnd(self, self.incarnation), self, self.end_second)
        return HubEngine(
            self.own_store, recovered, store, self.clock, self.world.plan.settings, self.directory(),
            self.plan_flush, cluster,
        )  # fmt: skip

    @property
    def others(self) -> Instances:
        """The engine's view of the other instances."""
        instances = self.engine.instances
        assert isinstance(instances, Instances)
        return instances

    def is_alive(self, incarnation: int) -> bool:
        return self.engine is not None and self.incarnation == incarnation

    def after_start(self) -> None:
        super().after_start()
        if not self.world_of_instances.carrier.is_away:
            self.join()

    def after_crash(self) -> None:
        self.is_joined = False
        super().after_crash()

    def join(self) -> None:
        if self.engine is not None and not self.is_joined:
            self.is_joined = True
            self.others.note_joined()
            self.plan_tick()

    def cut(self) -> None:
        if self.engine is not None and self.is_joined:
            self.is_joined = False
            self.others.note_cut()
            self.plan_tick()

    def receive_message(self, life: int, number: int, message: Message, *, to_front: bool) -> None:
        if self.engine is None or not self.others.is_new(life, number, to_front=to_front):
            self.plan_tick()
            return
        self._check_new(life, number, to_front=to_front)
        if isinstance(message, StoreFrames):
            self.world.faults.act_on_named(self, message.frames)
        if self.engine is not None:  # an act may end the process
            self.passes_on = isinstance(message, Passed)
            self.others.receive(life, message)
            self.passes_on = False
            self.plan_tick()

    def _check_new(self, life: int, number: int, *, to_front: bool) -> None:
        """Section 10: an incarnation processes a message once, and none from before its own beginning."""
        demand, carrier = self.world.oracle.demand, self.world_of_instances.carrier
        demand((life, number) not in self._processed, "10", f"{self.name} processes a message twice", (life, number))
        self._processed.add((life, number))
        is_newer = to_front or carrier.sent_at[life, number] >= self._began
        demand(is_newer, "10", f"{self.name} processes a message from before its beginning", (life, number))

    # --- sessions
    def link_up(self, link: SimLink) -> None:
        if self.others.fronts.probe(link.peer):
            link.session.cut(0.1, 0.1)  # the older session stays
        else:
            super().link_up(link)

    def end_second(self, node: Address) -> None:
        """End the session of a node that has an older one elsewhere."""
        for session in self.sessions:
            if session.listener_end.peer == node and session.listener_end.up:
                session.cut(0.1, 0.1)

    # --- homes
    def of(self, node: Address) -> StoreName | None:
        return self.homes.get(node.id)

    def is_in_use(self, store: StoreName) -> bool:
        return store in self.in_use()

    def in_use(self) -> list[StoreName]:
        stores = (hub_store.own_store for hub_store in self.world.hub_stores)
        return [(store.semq_id, store.semq_db_id) for store in stores]

    def volatile(self) -> dict[str, object]:
        facts = super().volatile()
        facts.pop("forwarded", None)  # the report of an Ack2 may be lost, or have a wrong address
        return facts


class InstancesWorld(World):
    def __init__(self, plan: Plan, count: int, trace: Trace | None = None) -> None:
        self.homes: dict[str, StoreName] = {}
        seed, plan = plan.seed, replace(plan, hub_stores=count, kinds=plan.kinds | {"other_store"})
        self._of_instances, self._of_stores = Random(seed * 7 + 3), Random(seed * 7 + 5)
        super().__init__(plan, trace)
        self.carrier = SimCarrier(self, Random(seed * 7 + 4))
        for local in self.locals:
            self._set_home(local.name, self._of_instances.choice(self.hub_stores))

    def new_hub_host(self, name: str, own_store: Store, tables: Tables) -> HubHost:
        return InstanceHost(self, name, own_store, tables)

    @property
    def hub(self) -> HubHost:
        """A random instance."""
        return self._of_instances.choice(self.hub_stores).host

    def instances(self) -> list[InstanceHost]:
        """Return the running instances, also those whose store was taken over."""
        return [host for host in self._known_instances if host.engine is not None]

    @property
    def _known_instances(self) -> list[InstanceHost]:
        """The instances of all stores, and running ones whose store was taken over."""
        former = [host for host in self._taken_over if host.engine is not None]
        return [
            host
            for host in (*(hub_store.host for hub_store in self.hub_stores), *former)
            if isinstance(host, InstanceHost)
        ]

    _taken_over: tuple[HubHost, ...] = ()  #: processes whose store was taken over

    def take_over(self, old_ends_after_s: float) -> None:
        self.hub_store = self._of_instances.choice(self.hub_stores)
        self._taken_over = (*(host for host in self._taken_over if host.engine is not None), self.hub_store.host)
        super().take_over(old_ends_after_s)

    def switch_hub_store(self, *, keep_old: bool) -> None:
        """Move the home of a node; crash an instance, unless ``keep_old``."""
        self._set_home(self._of_instances.choice(self.locals).name, self._of_instances.choice(self.hub_stores))
        if not keep_old:
            self.hub.crash(restart_s=60.0)

    def lose_hub_store(self, hub_store: SimulatedHubStore) -> Store:
        self.hub_stores.remove(hub_store)
        for node, home in list(self.homes.items()):
            if home == (hub_store.own_store.semq_id, hub_store.own_store.semq_db_id):
                self._set_home(node, self._of_instances.choice(self.hub_stores))
        self.hub_stores.append(hub_store)
        if hub_store is self.hub_store:
            self.hub_store = self.hub_stores[0]
        return super().lose_hub_store(hub_store)

    def _replace_store(self) -> None:
        """Move all homes out of a store, and replace the store when it is empty."""
        hub_store = self._of_stores.choice(self.hub_stores)
        others = [one for one in self.hub_stores if one is not hub_store]
        if self.faults.active and others:
            for node, home in list(self.homes.items()):
                if home == (hub_store.own_store.semq_id, hub_store.own_store.semq_db_id):
                    self._set_home(node, self._of_stores.choice(others))
            self.time.after(FOLLOW_S, self._retire_empty, hub_store)

    def _retire_empty(self, hub_store: SimulatedHubStore) -> None:
        tables, home = hub_store.tables, (hub_store.own_store.semq_id, hub_store.own_store.semq_db_id)
        if (
            not self.faults.active
            or hub_store not in self.hub_stores
            or len(self.hub_stores) < 2
            or home in self.homes.values()
        ):
            return
        if tables.outbound or tables.pending or tables.submitted:
            self.time.after(EMPTY_CHECK_S, self._retire_empty, hub_store)
            return
        self.trace("replaced", hub_store.host.name, "")
        self.faults.count += 1
        for host in self._known_instances:
            if host.tables is tables:
                host.is_retired = True
                host.crash()
        self.hub_stores.remove(hub_store)
        self.lost.append(hub_store)
        new = self._new_hub_store(len(self.hub_stores) + len(self.lost) + 1)
        self.hub_stores.append(new)
        if hub_store is self.hub_store:
            self.hub_store = new
        new.host.start()
        self.faults.retire(hub_store.own_store)
        self._set_home(self._of_stores.choice(self.locals).name, new)

    def _set_home(self, node: str, hub_store: SimulatedHubStore) -> None:
        home = hub_store.own_store.semq_id, hub_store.own_store.semq_db_id
        self.homes[node] = home
        for host in self._known_instances:
            self.time.after(self._of_instances.uniform(0.0, FOLLOW_S), self._follow, host, node, home)

    def _follow(self, host: InstanceHost, node: str, home: StoreName) -> None:
        if self.homes.get(node) == home:
            host.homes[node] = home

    def _begin(self) -> None:
        super()._begin()
        when = self._of_instances.expovariate(1 / AWAY_EVERY_S)
        while when < self.plan.faulty_s:
            self.time.at(when, self._lose_carrier, self._of_instances.choice((1.0, 20.0)))
            when += self._of_instances.expovariate(1 / AWAY_EVERY_S)
        when = self._of_stores.expovariate(1 / REPLACED_EVERY_S)
        while when < self.plan.faulty_s and self.plan.seed % REPLACING == 0:
            self.time.at(when, self._replace_store)
            when += self._of_stores.expovariate(1 / REPLACED_EVERY_S)

    def _lose_carrier(self, away_s: float) -> None:
        """Cut off one instance, or all, from the carrier."""
        if not self.faults.active:
            return
        self.faults.count += 1
        self.trace("FAULT", "carrier", away_s)
        affected = self.instances()
        if self._of_instances.random() < 0.5:
            self.carrier.is_away = True
        elif affected:
            affected = [self._of_instances.choice(affected)]
        for host in affected:
            host.cut()
        self.time.after(away_s, self._restore_carrier)

    def _restore_carrier(self) -> None:
        self.carrier.is_away = False
        for host in self.instances():
            host.join()

    def _heal(self) -> None:
        super()._heal()
        self._restore_carrier()

    def _serve_hub_stores(self) -> None:
        """Do nothing: every node reaches every store."""


def simulate_instances(
    seed: int,
    *,
    count: int,
    hell: bool | None = None,
    trace: Trace | None = None,
    focus: frozenset[str] = frozenset(),
    goal: Goal | None = None,
) -> SeedResult:
    return InstancesWorld(draw(seed, hell, focus, goal), count, trace).run()
