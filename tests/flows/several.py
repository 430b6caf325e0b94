"""A, B and a hub of several instances, each with a store, as in ``trio``.

The carrier between the instances can lose, repeat and reorder messages.
"""

from collections.abc import Callable

from semq.engine.hub.carrier import Message, StoreName
from semq.engine.hub.instances import Cluster, Instances
from semq.engine.hub_engine import HubEngine
from semq.umx_t.address import Address
from semq.umx_t.locator import Store
from tests.flows.trio import HUB, Local, Trio, TrioWire, engine_turn
from tests.memory_store.store import MemoryStore

Carried = tuple[int, int, "Destination", Message]  #: incarnation of the sender, number, destination, message
# ("store", name of the store), ("front", incarnation of an instance), or ("all", 0)
Destination = tuple[str, int | StoreName]


class CarrierQueue:
    """The carrier: one queue of messages, in order unless ``shuffle`` changes the order."""

    def __init__(self) -> None:
        self.members: dict[int, Instance] = {}  #: instances by incarnation of their process
        self.waiting: list[Carried] = []
        self.last_number = 0
        self.passed: list[Message] = []  #: delivered messages
        self.lose: Callable[[Message], bool] = lambda message: False
        self.repeat: Callable[[Message], bool] = lambda message: False
        self.shuffle: Callable[[list[Carried]], None] = lambda waiting: None

    def carry(self) -> bool:
        """Deliver the waiting messages; return whether any waited."""
        waiting, self.waiting = self.waiting, []
        self.shuffle(waiting)
        for origin, number, destination, message in waiting:
            for _ in range(0 if self.lose(message) else 2 if self.repeat(message) else 1):
                self.passed.append(message)
                self.deliver(origin, number, destination, message)
        return bool(waiting)

    def put(self, origin: int, destination: Destination, message: Message) -> None:
        self.last_number += 1
        self.waiting.append((origin, self.last_number, destination, message))

    def deliver(self, origin: int, number: int, destination: Destination, message: Message) -> None:
        destination_kind, name = destination
        if destination_kind == "all":
            for life, member in list(self.members.items()):
                if life != origin:
                    member.receive(origin, number, message, to_front=False)
            return
        targets = [
            member
            for life, member in self.members.items()
            if name == (life if destination_kind == "front" else member.name)
        ]
        if targets:
            targets[0].receive(origin, number, message, to_front=destination_kind == "front")
        elif origin in self.members:
            others = self.members[origin].others
            if isinstance(name, tuple):
                others.note_returned(name, message)
            else:
                others.note_ended(name)


class CarrierEndpoint:
    """The sending end of the carrier in one process."""

    def __init__(self, carrier: CarrierQueue, life: int) -> None:
        self._carrier, self._life = carrier, life

    def to_store(self, store: StoreName, message: Message) -> None:
        self._carrier.put(self._life, ("store", store), message)

    def to_front(self, life: int, message: Message) -> None:
        self._carrier.put(self._life, ("front", life), message)

    def to_all(self, message: Message) -> None:
        self._carrier.put(self._life, ("all", 0), message)


class Instance:
    """One instance: an engine on a store."""

    def __init__(self, several: "Several", db_id: int, store: MemoryStore | None = None) -> None:
        self.several = several
        self.name: StoreName = (1, db_id)
        self.store = store or MemoryStore()
        self.ended_sessions: list[Address] = []  #: arguments of ``end_second``
        self.begin()

    def begin(self) -> None:
        """Start a process, which joins the other instances."""
        several = self.several
        recovered = self.store.recover(several.time.incarnation())
        self.life = recovered.inc
        cluster = Cluster(CarrierEndpoint(several.carrier, self.life), several, self.end_second)
        home = Store(*HUB[:2], *self.name)
        self.hub = HubEngine(
            home, recovered, self.store, several.time, several.settings, several.directory, lambda later: None, cluster
        )
        several.carrier.members[self.life] = self
        self.others.note_joined()

    @property
    def others(self) -> Instances:
        assert self.hub.instances is not None
        return self.hub.instances

    def receive(self, origin: int, number: int, message: Message, *, to_front: bool) -> None:
        if self.others.is_new(origin, number, to_front=to_front):
            self.others.receive(origin, message)

    def is_elsewhere(self, node: Address) -> bool:
        """Whether a node has a session at another instance, according to the reports to this one."""
        session = self.hub.sessions.get(str(node))
        return session is not None and not session.is_here

    def end_second(self, node: Address) -> None:
        """End this instance's session of a node that also has one at another instance."""
        self.ended_sessions.append(node)
        for local in self.several.nodes:
            if local.address == node and self.several.places[local] is self:
                self.several.cut(local)

    def kill(self) -> None:
        """End the process and its sessions; its store remains."""
        for node in self.several.nodes:
            if self.several.places.get(node) is self:
                self.several.cut(node)
        del self.several.carrier.members[self.life]
        self.several.instances.remove(self)

    @property
    def held(self) -> int:
        return len(self.store.tables.outbound)


class Several(Trio):
    """A, B and the instances of the hub. ``count``: number of instances at the start, and of stores in use.

    ``homes`` has the home of each node, ``places`` the instance where it is logged in.
    """

    def __init__(self, count: int) -> None:
        self.carrier = CarrierQueue()
        self.count = count
        self.instances: list[Instance] = []
        self.homes: dict[Address, StoreName] = {}
        self.places: dict[Local, Instance] = {}
        super().__init__(connected=False)

    def start_hub(self) -> None:
        for db_id in range(1, self.count + 1):
            self.instances.append(Instance(self, db_id))

    def of(self, node: Address) -> StoreName | None:
        return self.homes.get(node)

    def is_in_use(self, store: StoreName) -> bool:
        return store in self.in_use()

    def in_use(self) -> list[StoreName]:
        return [(1, db_id) for db_id in range(1, self.count + 1)]

    def log_in(self, node: Local, place: int, *, home: int = 0) -> None:
        """Begin a session of a node at instance ``place``; store 1.``home`` becomes its home unless ``home`` is 0."""
        if home:
            self.homes[node.address] = (1, home)
        instance = self.instances[place - 1]
        self.places[node] = instance
        up = node.up = TrioWire(self, HUB, lambda frame: instance.hub.receive(down, [frame]))
        down = node.down = TrioWire(self, node.address, lambda frame: node.engine.receive(up, [frame]))
        instance.hub.link_up(down)
        node.engine.link_up(up)
        self.settle()

    def cut(self, node: Local) -> None:
        if node.up is None or node.down is None:
            return
        node.up.is_up = node.down.is_up = False
        self.places[node].hub.link_down(node.down)
        node.engine.link_down(node.up)
        node.up = node.down = None

    @property
    def held(self) -> int:
        return sum(instance.held for instance in self.instances)

    def _turn(self) -> bool:
        is_busy = [self.carrier.carry()]
        is_busy += [engine_turn(instance.store, instance.hub) for instance in self.instances]
        return self._nodes_turn() or any(is_busy)
