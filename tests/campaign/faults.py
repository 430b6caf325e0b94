"""The faults: a weighted table, from which a seed draws, and the class that carries them out; ``acts`` has others."""

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from random import Random
from typing import NamedTuple

from semq.installation.configuration import CARRIER, DIRECT, HUB
from tests.campaign.acts import ACTS
from tests.campaign.plan import CampaignPlan
from tests.campaign.receivers import WebhookReceiver
from tests.campaign.world import (
    BROKERS,
    BY_NAME,
    CLOCKED,
    DISK,
    FOLDER,
    OLD,
    PROXIES,
    QUEUES,
    VIRTUAL,
    CampaignWorld,
)
from tests.crash.faults import BACK_S_MAX, TEXTS, CycleFault, InstallationFaults, draw, failpoints_of
from tests.crash.installation import HUB_2
from tests.crash.shaping import Shaper

HUBS = (HUB, HUB_2)
PLACES = {
    "nodes": (*HUBS, *BY_NAME),
    "servers": (HUB, *BY_NAME),  # nodes with a database server of their own
    "hubs": HUBS,
    "shared store": (HUB_2,),
    "carrier": (CARRIER,),
    "links": tuple(name for name in PROXIES if name.partition("-")[0] in ("first", "second", "standby", "way")),
    "ends": (f"app-{QUEUES}", DIRECT),
    "webhook": (FOLDER,),
    "consumers": (QUEUES,),
    "institutions": tuple(BY_NAME),
    "clocks": CLOCKED,
    "restored": tuple(name for name in BY_NAME if name != DISK),  # a full disk has no room for a backup
    "hub": (HUB,),
    "armed": HUBS,  # a failpoint names its node itself
    "direct link": (DIRECT,),
    "brokers": (),
}
RABBITMQ_PLACES = PLACES | {"carrier": BROKERS, "brokers": BROKERS}
ARMED = tuple(name for name in BY_NAME if name not in (VIRTUAL, OLD))  # institutions whose nodes kill themselves
TEXTS_HERE = TEXTS | {
    "move": tuple(BY_NAME), "retire": tuple(BY_NAME), "webhook": ("401", "503", "slow"),
    "shape": ("8kbit", "64kbit", "512kbit"),  # in the notation of tc
    "withdraw": tuple(BY_NAME), "quota": tuple(BY_NAME),
    "operator": ("resend", "inquire", "hold"), "hub operator": ("refuse", "resend", "resend"),
    "rule": ("plain", "sealed", "ordered"), "unmount": ("", "kill", "kill"),
}  # fmt: skip
# share, kind, group of places
KINDS = (
    (12, "kill", "nodes"),
    (4, "kill postgres", "servers"),
    (3, "kill both", "nodes"),
    (2, "kill twice", "nodes"),
    (2, "kill two", "nodes"),
    (12, "failpoint", "armed"),
    (2, "kill postgres at start", "servers"),
    (3, "restart postgres", "servers"),
    (2, "freeze", "nodes"),
    (3, "stop", "nodes"),
    (3, "reload", "nodes"),
    (3, "renew", "nodes"),
    (4, "cut", "links"),
    (3, "cut in a frame", "links"),
    (1, "half open", "links"),
    (2, "silence", "links"),
    (1, "delay", "links"),
    (1, "throttle", "links"),
    (3, "shape", "links"),
    (1, "crumbs", "links"),
    (1, "refuse", "links"),
    (3, "cut", "ends"),
    (2, "cut in a frame", "ends"),
    (2, "refuse", "ends"),
    (3, "kill", "carrier"),
    (2, "kill two", "brokers"),  # the third one then pauses, because it is a minority
    (1, "freeze", "carrier"),
    (3, "take over", "shared store"),
    (2, "suspend", "shared store"),
    (1, "retire", "shared store"),
    (2, "change ways", "direct link"),
    (3, "move", "hubs"),
    (4, "webhook", "webhook"),
    (3, "nack", "consumers"),
    (3, "withdraw", "institutions"),
    (3, "quota", "institutions"),
    (1, "roll", "hub"),
    (2, "revoke", "institutions"),
    (5, "operator", "institutions"),
    (2, "hub operator", "institutions"),
    (8, "unmount", "webhook"),
    (2, "full disk", "webhook"),
    (3, "clock", "clocks"),
    (3, "rule", "institutions"),
    (2, "restore", "restored"),
    (1, "restore hub", "hub"),
)
CLOCK_S_MAX = 20.0
PAUSE_S = (2.0, 8.0)  # between two faults
SEVERAL = (1, 1, 1, 2, 3)  # faults at once
# Kinds after which a process of the second store never writes its lines about messages that it forwarded before.
SUSPENDING = frozenset({"freeze", "take over", "suspend"})


class FaultPlan(NamedTuple):
    """The faults that begin at once, and the pause after them, in seconds."""

    pause_s: float
    faults: list[CycleFault]


def plan(campaign: CampaignPlan, number: int) -> FaultPlan:
    """Return the faults number ``number`` of a campaign."""
    chance = Random(f"{campaign.seed}/faults/{number}")
    places = RABBITMQ_PLACES if campaign.rabbitmq else PLACES
    kinds = [row for row in KINDS if places[row[2]] and (campaign.faults is None or row[1] in campaign.faults)]
    points = failpoints_of(campaign.seed, HUBS, ARMED)
    first = number * max(SEVERAL) % len(points)
    turn = chain(points[first:], points)
    faults = [_draw(chance, turn, kinds, places) for _ in range(chance.choice(SEVERAL))] if kinds else []
    return FaultPlan(chance.uniform(*PAUSE_S), sorted(faults, key=lambda fault: fault.at_s))


def _draw(
    chance: Random,
    points: Iterator[tuple[str, str]],
    kinds: Sequence[tuple[int, str, str]],
    places: Mapping[str, tuple[str, ...]],
) -> CycleFault:
    fault = draw(chance, points, kinds, places, TEXTS_HERE)
    value, text = fault.value, fault.text
    if fault.kind in ("webhook", "nack", "shape", "stop", *ACTS):
        value = round(chance.uniform(0.5, BACK_S_MAX), 2)
    if fault.kind == "clock":
        value = round(chance.uniform(-CLOCK_S_MAX, CLOCK_S_MAX), 1)
    if text == fault.where:  # no institution has an agreement with itself
        text = next(name for name in BY_NAME if name != fault.where)
    return replace(fault, value=value, text=text)


class CampaignFaults(InstallationFaults):
    """Carries out the faults of a campaign."""

    def __init__(self, world: CampaignWorld) -> None:
        super().__init__(world)
        self._campaign = world
        self._shaper = Shaper()
        self.kills = 0
        self._kinds |= {
            "restart postgres": self._restart_postgres,
            "stop": self._stop,
            "reload": self._reload,
            "shape": self._shape,
            "webhook": self._webhook,
            "nack": self._nack,
            **{name: partial(act, world) for name, act in ACTS.items()},
        }

    async def strike(self, faults: list[CycleFault]) -> None:
        """Carry out faults; return when all have ended."""
        self.kills += sum(fault.kind.startswith("kill") or fault.kind == "failpoint" for fault in faults)
        await self.run(faults)

    async def execute(self, fault: CycleFault) -> None:
        """Carry out a fault at its time, and write it into the notebook."""
        notebook, began = self._campaign.notebook, time.time()
        notebook.strike(str(fault))
        try:
            await super().execute(fault)
        except TimeoutError:
            self._campaign.complaints.append(f"a fault did not end: {fault}")
        if fault.kind in SUSPENDING and fault.where == HUB_2:
            notebook.hub_outages.append((began, time.time()))

    async def _restart_postgres(self, fault: CycleFault) -> None:
        """Stop a database server in its fast mode; its node starts it again."""
        await asyncio.to_thread(self._world.nodes[fault.where].postgres.stop)

    async def _stop(self, fault: CycleFault) -> None:
        node = self._world.serving_process(fault.where)
        async with self._campaign.stopping[fault.where]:
            await node.down(orderly=True)
            await asyncio.sleep(fault.value)
            node.up()

    async def _reload(self, fault: CycleFault) -> None:
        node = self._world.serving_process(fault.where)
        if node.owns_store:
            node.signal(signal.SIGHUP)

    async def _shape(self, fault: CycleFault) -> None:
        """Let the kernel slow a link and lose packets of it."""
        await self._shaper.slow(self._campaign.proxies[fault.where].port, fault.text, fault.value)

    async def _webhook(self, fault: CycleFault) -> None:
        """Let the application behind a webhook refuse all requests, or answer late."""
        (hook,) = (each for each in self._campaign.receivers.values() if isinstance(each, WebhookReceiver))
        hook.status, hook.delay_s = (0, 1.0) if fault.text == "slow" else (int(fault.text), 0.0)
        await asyncio.sleep(fault.value)
        hook.status, hook.delay_s = 0, 0.0

    async def _nack(self, fault: CycleFault) -> None:
        """Let a consumer return all documents for a moment."""
        receiver = self._campaign.receivers[BY_NAME[fault.where].address]
        receiver.is_nacking = True
        await asyncio.sleep(min(fault.value, 1.0))
        receiver.is_nacking = False
