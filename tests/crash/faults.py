"""Faults that any installation can have, and the classes that draw and carry them out.

A fault is data and can be printed; ``tests.campaign.faults`` has the weighted table.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from random import Random

import psycopg

from semq.installation.configuration import DIRECT, HUB, STANDBY
from tests.crash import node_requests
from tests.crash.armed import failpoints
from tests.crash.armed.process import CrashProcess
from tests.crash.installation import HUB_2, Installation
from tests.crash.rabbitmq import BrokerProcess

POLL_S = 0.3
SPAN_S = 2.0  # faults begin within this time
STRIKE_S = 3.0  # longest wait until an armed node that serves reaches its failpoint
SUSPENDED_S = 10.0  # longest wait until an armed node that serves suspends itself
STATEMENTS_MAX = 60  # about the number of exchanges with Postgres in a start of a hub in a cluster
BACK_S_MAX = 5.0  # longest pause before the start of a killed node
EMPTY_S_MAX = 120.0  # longest time until a store without homes is empty
# Kind | values of ``CycleFault.text``.
TEXTS = {
    "silence": ("is_silent_to_server", "is_silent_to_dialler"),
    "take over": ("kill", "stop", "freeze"),  # fault of the owner of the store
}
# Only one fault of these kinds at a time may strike the processes of the second store. Another one would end the
# suspension that "take over" or "suspend" has begun.
ALONE = frozenset({"kill", "kill two", "kill both", "kill twice", "failpoint", "freeze", "take over", "suspend"})
# Tables of a hub's store that are empty when nothing waits in it.
STORED = ("tb_0031", "tb_0030")
# Steps that only hubs reach in a campaign.
HUB_ONLY = frozenset({"H3-line", "H4", "H5", "H6", "H12", "MSG-stored", "Ack-Fwd", "Ack-Save", "ReAck"})
# Steps that follow acts of operators (``test_refusing``).
BY_HAND = frozenset({"H16", "Refusal"})
# Steps that all nodes reach.
EVERYWHERE = frozenset({failpoints.BOOT, failpoints.STATEMENT, "MSG", "Ack2", "ReAck2", "Inquiry", "Answer"})


@dataclass(frozen=True, slots=True)
class CycleFault:
    at_s: float  #: time from the beginning of the cycle
    kind: str
    where: str
    value: float = 0.0  #: seconds, bytes, or bytes per second, depending on the kind
    text: str = ""  #: second node or broker to kill, failpoint, or one of TEXTS

    def __str__(self) -> str:
        return f"{self.at_s:.1f}s {self.kind} {self.where} {self.value:g} {self.text}".rstrip()


@cache
def failpoints_of(seed: int, hubs: tuple[str, ...], institutions: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return all (node, STEP:PHASE) in an order that the seed draws."""
    points = [
        (node, f"{step}:{phase}")
        for step, phase in failpoints.all_failpoints()
        for node in (*hubs, *institutions)
        if step not in BY_HAND and (step in EVERYWHERE or (step in HUB_ONLY) == (node in hubs))
    ]
    Random(f"{seed}/failpoints").shuffle(points)
    return points


def draw(
    chance: Random,
    points: Iterator[tuple[str, str]],
    kinds: Sequence[tuple[int, str, str]],
    places: Mapping[str, tuple[str, ...]],
    texts: Mapping[str, tuple[str, ...]] = TEXTS,
) -> CycleFault:
    """Draw a fault from a table of kinds."""
    _, kind, group = chance.choices(kinds, [share for share, *_ in kinds])[0]
    at_s, where, value, text = chance.uniform(0, SPAN_S), chance.choice(places[group]), 0.0, ""
    if kind in ("kill", "kill two", "kill both", "failpoint"):
        value = chance.choice((0.0, chance.uniform(0, 1), chance.uniform(0, BACK_S_MAX)))
    if kind == "kill two":
        text = chance.choice([node for node in places[group] if node != where])
    if kind in texts:
        text = chance.choice(texts[kind])
    if kind == "failpoint":
        where, point = next(points)
        text = f"{point}:{_draw_count(chance, point)}"
    if kind == "suspend":
        steps = [step for step in (*EVERYWHERE, *HUB_ONLY) if step != failpoints.STATEMENT]
        step = chance.choice((failpoints.STATEMENT, chance.choice(sorted(steps))))
        text = f"{step}:{chance.choice((failpoints.BEFORE, failpoints.AFTER))}:{_draw_count(chance, step)}:stop"
    if kind in ("kill twice", "kill postgres at start"):
        value = chance.uniform(0.0, 3.0)
    if kind in ("freeze", "silence", "refuse", "change ways"):
        value = chance.uniform(0.5, 4.0)
    if kind == "delay":
        value = chance.uniform(0.01, 0.5)
    if kind == "throttle":
        value = chance.uniform(5_000, 100_000)
    if kind == "crumbs":
        value = chance.choice((1, 3, 7, 100))
    if kind == "cut in a frame":
        value = float(int(chance.expovariate(1 / 3_000)))
    return CycleFault(round(at_s, 2), kind, where, round(value, 2), text)


def _draw_count(chance: Random, point: str) -> int:
    if point.startswith(failpoints.BOOT):
        return 1
    return (
        chance.randint(1, STATEMENTS_MAX) if point.startswith(failpoints.STATEMENT) else chance.choice((1, 1, 1, 2, 3))
    )


class InstallationFaults:
    """Carries out the faults that any installation can have."""

    def __init__(self, world: Installation) -> None:
        self._world = world
        self.done: Counter[str] = Counter()  #: faults begun, by kind
        self.taken_over: Counter[str] = Counter()  #: takeovers, by fault of the former owner
        self._striking_second_store = asyncio.Lock()
        self.retired = 0  #: retired stores
        self._kinds: dict[str, Callable[[CycleFault], Awaitable[None]]] = {
            "kill": self._kill,
            "kill two": self._kill_two,
            "kill postgres": self._kill_postgres,
            "kill both": self._kill_both,
            "kill twice": self._kill_twice,
            "kill postgres at start": self._kill_postgres_at_start,
            "freeze": self._freeze,
            "cut": self._cut,
            "cut in a frame": self._cut_in_a_frame,
            "half open": self._half_open,
            "silence": self._silence,
            "delay": lambda fault: self._disturb_link(fault, "delay_s", SPAN_S),
            "throttle": lambda fault: self._disturb_link(fault, "bytes_per_s", SPAN_S),
            "crumbs": lambda fault: self._disturb_link(fault, "write_bytes_max", SPAN_S, int(fault.value)),
            "refuse": lambda fault: self._close_links(fault.value, fault.where),
            "renew": self._renew,
            "move": self._move,
            "take over": self._take_over,
            "suspend": self._suspend,
            "failpoint": self._arm,
            "change ways": self._change_ways,
            "retire": self._retire,
        }

    @property
    def kinds(self) -> set[str]:
        """The kinds of faults that can be carried out."""
        return set(self._kinds)

    async def run(self, faults: list[CycleFault]) -> None:
        """Carry out the faults of a cycle, each at its time; return when all have ended."""
        await asyncio.gather(*(self._run_at_its_time(fault) for fault in faults))

    def _process(self, name: str) -> CrashProcess | BrokerProcess:
        """Return a broker, or the process that serves the store of a node."""
        return self._world.brokers.get(name) or self._world.serving_process(name)

    async def _run_at_its_time(self, fault: CycleFault) -> None:
        await asyncio.sleep(fault.at_s)
        is_alone = fault.kind in ALONE and HUB_2 in (fault.where, fault.text)
        async with self._striking_second_store if is_alone else nullcontext():
            self.done[fault.kind] += 1
            await self.execute(fault)

    async def execute(self, fault: CycleFault) -> None:
        """Carry out a fault now."""
        await self._kinds[fault.kind](fault)

    async def _kill(self, fault: CycleFault) -> None:
        self._process(fault.where).kill(fault.value)

    async def _kill_two(self, fault: CycleFault) -> None:
        self._process(fault.where).kill(fault.value)
        self._process(fault.text).kill(fault.value)

    async def _kill_postgres(self, fault: CycleFault) -> None:
        self._world.nodes[fault.where].kill_postgres()

    async def _kill_both(self, fault: CycleFault) -> None:
        node = self._world.serving_process(fault.where)
        node.kill_postgres()
        node.kill(fault.value)

    async def _kill_twice(self, fault: CycleFault) -> None:
        node = self._world.serving_process(fault.where)
        node.kill(0.0)
        await asyncio.sleep(fault.value)
        node.kill(0.0)

    async def _kill_postgres_at_start(self, fault: CycleFault) -> None:
        node = self._world.serving_process(fault.where)
        node.kill_postgres()
        node.kill(0.0)
        await asyncio.sleep(fault.value)
        node.kill_postgres()

    async def _freeze(self, fault: CycleFault) -> None:
        process = self._process(fault.where)
        process.freeze()
        await asyncio.sleep(fault.value)
        process.resume()

    async def _cut(self, fault: CycleFault) -> None:
        self._world.proxies[fault.where].cut()

    async def _cut_in_a_frame(self, fault: CycleFault) -> None:
        self._world.proxies[fault.where].cut_after(int(fault.value))

    async def _half_open(self, fault: CycleFault) -> None:
        self._world.proxies[fault.where].half_open()

    async def _silence(self, fault: CycleFault) -> None:
        proxy = self._world.proxies[fault.where]
        proxy.change(**{fault.text: True})
        await asyncio.sleep(fault.value)
        proxy.change(**{fault.text: False})

    async def _close_links(self, duration_s: float, *where: str) -> None:
        proxies = [self._world.proxies[name] for name in where]
        for proxy in proxies:
            proxy.change(is_refusing=True)
            proxy.cut()
        await asyncio.sleep(duration_s)
        for proxy in proxies:
            proxy.change(is_refusing=False)

    async def _renew(self, fault: CycleFault) -> None:
        """Replace a node's key while documents sealed for the old key are under way."""
        await node_requests.ask(lambda: self._world.serving_process(fault.where), "cert.renew")

    async def _move(self, fault: CycleFault) -> None:
        """Move the home of an institution while documents wait for it in the former store."""
        async with self._world.changing_store:
            await self._move_homes(fault.where, fault.text)

    async def _move_homes(self, hub: str, *sides: str) -> None:
        world = self._world
        nodes = [self._world.addresses[side] for side in sides]
        await node_requests.ask(lambda: world.serving_process(hub), "stores.move", store=world.store(hub), nodes=nodes)

    async def _take_over(self, fault: CycleFault) -> None:
        """End or freeze the owner of a store until its standby serves it; then start or resume the former owner."""
        async with self._world.changing_store:
            owner = self._world.serving_process(fault.where)
            standby = owner.other
            assert standby is not None
            if fault.text == "freeze":
                owner.freeze()
            else:
                await owner.down(orderly=fault.text == "stop")
            try:
                await standby.wait_until_owner()
                self.taken_over[fault.text] += 1
            except TimeoutError:
                self._world.complaints.append(f"{standby.name} did not take over the store of {owner.name}")
            finally:
                owner.resume()
                owner.up()

    async def _suspend(self, fault: CycleFault) -> None:
        """Let the owner of a store suspend itself at a step until its standby serves the store; then resume it."""
        async with self._world.changing_store:
            standby = self._world.serving_process(fault.where)
            owner = standby.other
            assert owner is not None
            await standby.down()  # so that the armed process takes the store
            owner.kill(0.0, fault.text)
            try:
                is_suspended = await owner.wait_until_suspended(SUSPENDED_S)
                standby.up()
                if is_suspended:
                    await standby.wait_until_owner()
                    self.taken_over["suspend"] += 1
                else:
                    owner.kill(0.0)  # otherwise it could suspend itself later
            except TimeoutError:
                self._world.complaints.append(
                    f"the store of {owner.name}, suspended at {fault.text}, was not taken over"
                )
            finally:
                owner.resume()
                standby.up()

    async def _disturb_link(self, fault: CycleFault, name: str, duration_s: float, value: float | None = None) -> None:
        """Set a field of ``LinkFaults`` for a time, to ``value``, or to the value of the fault."""
        proxy = self._world.proxies[fault.where]
        proxy.change(**{name: fault.value if value is None else value})
        await asyncio.sleep(duration_s)
        proxy.clear()

    async def _arm(self, fault: CycleFault) -> None:
        node = self._world.serving_process(fault.where)
        node.kill(fault.value, fault.text)
        await node.wait_for_failpoint(STRIKE_S)

    async def _change_ways(self, fault: CycleFault) -> None:
        """Close the direct link, then the links of its two institutions to the hub: documents take the other way."""
        await self._close_links(fault.value, DIRECT)
        await self._close_links(fault.value, *self._world.links_beside_direct)

    async def _retire(self, fault: CycleFault) -> None:
        """Move all homes away from a store, retire it when it is empty, add another one, and move a home there."""
        world, hub = self._world, self._world.nodes[HUB]
        async with world.changing_store:
            store = world.store(fault.where)
            pair = [world.nodes[name] for name in (fault.where, STANDBY)]
            try:
                async with asyncio.timeout(EMPTY_S_MAX):
                    await self._move_homes(HUB, *world.addresses)
                    await self._stop_when_empty(fault.where, pair)
                await node_requests.ask(hub, "stores.retire", store=store, why="its homes have moved")
                await world.replace_second_store()
                await node_requests.ask(hub, "stores.add", store=world.store(fault.where))
                self.retired += 1
            except TimeoutError:
                world.complaints.append(f"store {store} was not retired: {self._waiting_rows(fault.where)}")
            finally:
                for node in pair:
                    node.up()
            await self._move_homes(fault.where, fault.text)

    async def _stop_when_empty(self, hub: str, pair: list[CrashProcess]) -> None:
        """Wait until a store is empty, and stop both its processes; try again if copies have arrived meanwhile."""
        while True:
            while self._waiting_rows(hub):  # noqa: ASYNC110  (other processes empty it)
                await asyncio.sleep(POLL_S)
            await asyncio.gather(*(node.down(orderly=True) for node in pair))
            if not self._waiting_rows(hub):
                return
            for node in pair:
                node.up()

    def _waiting_rows(self, hub: str) -> int:
        """Return the number of rows that wait in a store; 1 while its server does not answer."""
        url = self._world.database(hub)
        try:
            with psycopg.connect(url or "") as connection:
                rows = [connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() for table in STORED]
        except psycopg.OperationalError:
            return 1
        return sum(int(row[0]) for row in rows if row is not None)
