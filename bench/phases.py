"""What is measured: online, stored, latency. Each phase says in its docstring between which moments time is taken.

The moments of SS_ACK2 at A come from A's own counter ``delivered``, polled (``load.Watcher``), where many documents
are under way, and from its events, heard as they come, where time is asked for one by one. Used by ``__main__``.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from statistics import quantiles
from typing import Any

from bench import rows
from bench.floor import Observed
from bench.load import Listener, Receiver, Stuck, Submitter, Watcher
from bench.network import HUB, A, B, Network

Result = dict[str, Any]


@dataclass(slots=True)
class Bench:
    """The network under test, and what the phases share."""

    network: Network
    size: int
    next_number: int = 0
    encrypt: bool = False
    account: dict[str, int] = field(default_factory=lambda: {"repeated": 0, "damaged": 0, "missing": 0})

    def numbers(self, count: int) -> range:
        """Numbers for new documents, never used before."""
        first = self.next_number
        self.next_number += count
        return range(first, first + count)

    def settle(self, receiver: Receiver, numbers: range) -> None:
        """Take the receiver's account of a phase: every document once, none else."""
        self.account["repeated"] += receiver.repeated
        self.account["damaged"] += receiver.damaged
        self.account["missing"] += len(set(numbers) - receiver.seen)

    @property
    def databases(self) -> dict[str, str]:
        """Where each node keeps its rows now (a node that was restarted may have another port)."""
        return {name: node.database_url for name, node in self.network.nodes.items()}


async def online(bench: Bench, messages: int) -> Result:
    """From the first submit at A to the last SS_ACK2 at A; B is online and its application acknowledges."""
    numbers = bench.numbers(messages)
    receiver = await (await Receiver.connect(bench.network, B)).begin(bench.size)
    submitter = await (await Submitter.connect(bench.network, A)).begin(bench.encrypt)
    watcher = await Watcher.connect(bench.network)
    goal = await watcher.count("delivered") + messages
    started, ended = await asyncio.gather(
        submitter.submit(numbers.start, messages, bench.size), watcher.reaches("delivered", goal)
    )
    await rows.wait_clean(bench.databases)
    clean = time.perf_counter()
    bench.settle(receiver, numbers)
    for end in (receiver, submitter, watcher):
        await end.close()
    return {"messages": messages, **_rate(messages, ended - started), "clean_s": round(clean - ended, 2)}


async def stored(bench: Bench, messages: int) -> Result:
    """From the first submit at A to the last SS_ACK2 at A, less the time that B's process needs to start.

    B is offline while all documents are submitted and stored at the hub (``store_s``); then B is started, and from the
    moment that its session with the hub is up until the last SS_ACK2 at A is the drain (``drain_s``).
    """
    numbers = bench.numbers(messages)
    await bench.network.stop(B)
    submitter = await (await Submitter.connect(bench.network, A)).begin()
    at_a, at_hub = await Watcher.connect(bench.network), await Watcher.connect(bench.network, HUB)
    goal = await at_a.count("delivered") + messages
    kept = await at_hub.count("stored") + messages
    started, stored_at = await asyncio.gather(
        submitter.submit(numbers.start, messages, bench.size), at_hub.reaches("stored", kept)
    )
    await bench.network.start(B)
    receiver = await (await Receiver.connect(bench.network, B)).begin(bench.size)
    up = await at_hub.sees_online(B)
    ended = await at_a.reaches("delivered", goal)
    await rows.wait_clean(bench.databases)
    clean = time.perf_counter()
    bench.settle(receiver, numbers)
    for end in (receiver, submitter, at_a, at_hub):
        await end.close()
    store_s, drain_s = stored_at - started, ended - up
    return {
        "messages": messages, **_rate(messages, store_s + drain_s), "store_s": round(store_s, 2),
        "store_per_s": round(messages / store_s), "drain_s": round(drain_s, 2),
        "drain_per_s": round(messages / drain_s), "clean_s": round(clean - ended, 2),
    }  # fmt: skip


async def latency(bench: Bench, messages: int, rate: float) -> Result:
    """From the publish at A to the event ``delivered`` in A's application, one document at a time at a fixed rate.

    The next document is published when its time has come, whether or not the one before it has arrived.
    """
    numbers = bench.numbers(messages)
    sent: dict[int, float] = {}
    took: list[float] = []
    all_there = asyncio.Event()

    def delivered(number: int, moment: float) -> None:
        took.append((moment - sent[number]) * 1000)
        if len(took) == messages:
            all_there.set()

    receiver = await (await Receiver.connect(bench.network, B)).begin(bench.size)
    submitter = await (await Submitter.connect(bench.network, A)).begin()
    listener = await (await Listener.connect(bench.network, A)).begin(delivered)
    started = time.perf_counter()
    for place, number in enumerate(numbers):
        await asyncio.sleep(max(started + place / rate - time.perf_counter(), 0))
        sent[number] = time.perf_counter()
        submitter.publish(number, bench.size)
    try:
        async with asyncio.timeout(60):
            await all_there.wait()
    except TimeoutError as error:
        raise Stuck(f"{len(took)} of {messages} documents were delivered") from error
    await rows.wait_clean(bench.databases)
    bench.settle(receiver, numbers)
    for end in (receiver, submitter, listener):
        await end.close()
    cuts = quantiles(took, n=100, method="inclusive")
    return {
        "messages": messages, "rate_per_s": rate, "p50_ms": round(cuts[49], 2), "p90_ms": round(cuts[89], 2),
        "p99_ms": round(cuts[98], 2), "max_ms": round(max(took), 2),
    }  # fmt: skip


async def observed(
    bench: Bench, phase: Callable[[Bench, int], Awaitable[Result]], messages: int
) -> tuple[Result, Mapping[str, Observed]]:
    """Run a phase, and what each node did to its rows meanwhile."""
    before = await rows.read(bench.databases)
    units = {name: await _commits(bench, name) for name in bench.network.nodes}
    restarts = {name: node.pid for name, node in bench.network.nodes.items()}
    result = await phase(bench, messages)
    after = await rows.read(bench.databases)
    seen = {}
    for name, node in bench.network.nodes.items():
        # The counters of a node that was restarted began at nothing.
        earlier = units[name] if node.pid == restarts[name] else 0
        commits = await _commits(bench, name) - earlier
        seen[name] = Observed(bench.databases[name], after[name].since(before[name]), commits)
    result["rows_per_message"] = {name: node.reading.per_message(messages) for name, node in seen.items()}
    result["messages_per_commit"] = {name: round(messages / max(node.commits, 1), 1) for name, node in seen.items()}
    return result, seen


async def _commits(bench: Bench, name: str) -> int:
    """How many transactions a node's writer has written since the node started."""
    counted = (await bench.network.status(name))["store"]
    return int(counted["units"]) - int(counted["read_only"])


def _rate(messages: int, seconds: float) -> Result:
    return {"seconds": round(seconds, 2), "per_s": round(messages / seconds)}
