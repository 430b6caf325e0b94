"""Several instances of the hub with a store each, a carrier between them that can lose, repeat and delay, and A and B.

As ``trio``: real engines, memory stores, time that moves only by ``later``.
"""

from collections.abc import Callable

from semq.engine.hub.carrier import Message, StoreName
from semq.engine.hub.instances import Cluster, Instances
from semq.engine.hub_engine import HubEngine
from semq.engine.settings import EngineSettings
from semq.umx_t.address import Address
from semq.umx_t.locator import Store
from tests.flows.trio import HUB, SETTINGS, Local, Trio, TrioWire, engine_turn
from tests.memory_store.store import MemoryStore

Destination = tuple[str, int | StoreName]  # "store", "front" or "all"


class Letters:
    """The carrier: one queue of messages, in order unless ``shuffle`` says otherwise."""

    def __init__(self) -> None:
        self.members: dict[int, Instance] = {}
        self.waiting: list[tuple[int, Destination, Message]] = []
        self.passed: list[Message] = []
        self.lose: Callable[[Message], bool] = lambda message: False
        self.repeat: Callable[[Message], bool] = lambda message: False
        self.shuffle: Callable[[list[tuple[int, Destination, Message]]], None] = lambda waiting: None

    def carry(self) -> bool:
        """Bring what waits to its destinations; whether there was anything."""
        waiting, self.waiting = self.waiting, []
        self.shuffle(waiting)
        for origin, destination, message in waiting:
            for _ in range(0 if self.lose(message) else 2 if self.repeat(message) else 1):
                self.passed.append(message)
                self._bring(origin, destination, message)
        return bool(waiting)

    def _bring(self, origin: int, destination: Destination, message: Message) -> None:
        kind, name = destination
        if kind == "all":
            for life, member in list(self.members.items()):
                if life != origin:
                    member.others.hear(origin, message)
            return
        found = [one for life, one in self.members.items() if name == (life if kind == "front" else one.name)]
        if found:
            found[0].others.hear(origin, message)
        elif origin in self.members:
            others = self.members[origin].others
            if isinstance(name, tuple):
                others.returned(name, message)
            else:
                others.gone(name)


class LettersOf:
    """The carrier as one life of an instance uses it."""

    def __init__(self, letters: Letters, life: int) -> None:
        self._letters, self._life = letters, life

    def to_store(self, store: StoreName, message: Message) -> None:
        self._letters.waiting.append((self._life, ("store", store), message))

    def to_front(self, life: int, message: Message) -> None:
        self._letters.waiting.append((self._life, ("front", life), message))

    def to_all(self, message: Message) -> None:
        self._letters.waiting.append((self._life, ("all", 0), message))


class Instance:
    """One instance: an engine on a store."""

    def __init__(self, several: "Several", db_id: int, store: MemoryStore | None = None) -> None:
        self.several = several
        self.name: StoreName = (1, db_id)
        self.store = store or MemoryStore()
        self.ended: list[Address] = []
        self.begin()

    def begin(self) -> None:
        """A process life begins: it joins the others."""
        several = self.several
        recovered = self.store.recover(several.time.incarnation())
        self.life = recovered.inc
        cluster = Cluster(LettersOf(several.letters, self.life), several, self.end_second)
        home = Store(*HUB[:2], *self.name)
        self.hub = HubEngine(
            home, recovered, self.store, several.time, several.settings, several.directory, lambda: None, cluster
        )
        several.letters.members[self.life] = self
        self.others.joined()

    @property
    def others(self) -> Instances:
        assert self.hub.instances is not None
        return self.hub.instances

    def end_second(self, node: Address) -> None:
        self.ended.append(node)
        for one in self.several.nodes:
            if one.address == node and self.several.places[one] is self:
                self.several.cut(one)

    def kill(self) -> None:
        """The process dies with everything volatile; its store stays, and nobody serves it."""
        for node in self.several.nodes:
            if self.several.places.get(node) is self:
                self.several.cut(node)
        del self.several.letters.members[self.life]
        self.several.instances.remove(self)

    @property
    def held(self) -> int:
        return len(self.store.tables.outbound)


class Several(Trio):
    """The instances, A and B. ``homes`` has the home of each node."""

    def __init__(self, count: int = 2, settings: EngineSettings = SETTINGS) -> None:
        self.letters = Letters()
        self.count = count
        self.instances: list[Instance] = []
        self.homes: dict[Address, StoreName] = {}
        self.places: dict[Local, Instance] = {}
        super().__init__(settings, connected=False)

    def start_hub(self) -> None:
        for db_id in range(1, self.count + 1):
            self.instances.append(Instance(self, db_id))

    def of(self, node: Address) -> StoreName | None:
        return self.homes.get(node)

    def is_in_use(self, store: StoreName) -> bool:
        return 1 <= store[1] <= self.count

    def at(self, node: Local, place: int, *, home: int = 0) -> None:
        """A session begins at an instance; ``home``: the store of the node from now on."""
        if home:
            self.homes[node.address] = (1, home)
        instance = self.instances[place - 1]
        self.places[node] = instance
        up = node.up = TrioWire(self, HUB, lambda frame: instance.hub.hear(down, [frame]))
        down = node.down = TrioWire(self, node.address, lambda frame: node.engine.hear(up, [frame]))
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
        is_busy = [self.letters.carry()]
        is_busy += [engine_turn(instance.store, instance.hub) for instance in self.instances]
        return self._nodes_turn() or any(is_busy)
