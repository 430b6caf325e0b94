"""A campaign: cycles of faults under load. After each group of cycles, all work must end, and the oracle checks.

The same seed plans the same faults at the same times. The documents also depend on the speed of the machine.
"""

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from tests.crash import oracle
from tests.crash.documents import MUST, PIECES_FROM
from tests.crash.faults import FaultInjector, failpoints_by_turn, plan
from tests.crash.oracle import OracleFindings
from tests.crash.world import SIDES, CrashWorld

GROUP = 5  # cycles between two checks of the oracle
# Time in which all work must end after the last fault. The requirement is 120 s on an idle machine.
SETTLE_S = 150.0
POLL_S = 0.3
POLLS_BETWEEN_REMOVALS = 5  # polls between two removals of interrupted uploads


@dataclass
class CampaignReport:
    """The result of a campaign; ``--json`` prints it."""

    cycles: int  #: cycles that were run
    seed: int
    steps: int = 0  #: ledger lines of all nodes
    faults: int = 0
    violations: int = 0
    lost: int = 0
    duplicated: int = 0
    unclean: int = 0  #: rows that should have been deleted
    faults_by_kind: dict[str, int] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)  #: numbers of documents and starts (``Campaign._counts``)
    ways: dict[str, int] = field(default_factory=dict)  #: received messages by way: ``direct`` or ``hub``
    takeovers: dict[str, int] = field(default_factory=dict)  #: takeovers, by fault of the former owner
    retired: int = 0  #: stores that were retired and replaced
    failpoints: dict[str, int] = field(default_factory=dict)  #: ended processes, by node/STEP:PHASE
    settled_s_max: float = 0.0  #: longest time from the last fault of a group until all work had ended
    seconds: float = 0.0
    details: list[str] = field(default_factory=list)
    folder: str = ""  #: kept after a failure

    @property
    def good(self) -> bool:
        return not (self.violations or self.lost or self.duplicated or self.unclean)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def set_findings(self, findings: OracleFindings) -> None:
        """Replace the findings of an earlier check."""
        self.violations, self.lost = len(findings.violations), len(findings.lost)
        self.duplicated, self.unclean = len(findings.duplicated), sum(findings.unclean.values())
        self.details = findings.lines()


async def run(
    cycles: int, seed: int, say: Callable[[str], None], group: int = GROUP, root: Path | None = None, **shape: bool
) -> CampaignReport:
    """Run one campaign in a folder of its own, which is kept after a failure.

    ``group``: cycles between two checks. ``root`` and ``shape``: arguments of ``CrashWorld``.
    """
    folder = Path(tempfile.mkdtemp(prefix="semq-crash-"))
    campaign = Campaign(CrashWorld(folder, seed, root=root, **shape), cycles, seed, group, say, **shape)
    try:
        await campaign.run()
    except BaseException:
        say(f"the files of the campaign are kept in {folder}")
        raise
    if campaign.report.good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        campaign.report.folder = str(folder)
    return campaign.report


class Campaign:
    def __init__(
        self, world: CrashWorld, cycles: int, seed: int, group: int, say: Callable[[str], None], **shape: bool
    ) -> None:
        self._world = world
        self._shape = shape
        self._injector = FaultInjector(self._world)
        self._points = failpoints_by_turn(seed, cluster=self._world.cluster)
        self._cycles = cycles
        self._seed = seed
        self._group = group
        self._say = say
        self.report = CampaignReport(0, seed)

    async def run(self) -> None:
        """Run the cycles up to the first fault that the oracle finds."""
        started = time.monotonic()
        try:
            await self._world.start()
            for number in range(1, self._cycles + 1):
                await self._cycle(number)
                self.report.cycles = number
                if number % self._group == 0 or number == self._cycles:
                    self.report.set_findings(await self._settle(number))
                    if not self.report.good:
                        break
            await self._end()
        finally:
            await self._world.remove()
            self.report.seconds = round(time.monotonic() - started, 1)

    async def _cycle(self, number: int) -> None:
        """Carry out the faults of a cycle under load; return when all nodes serve again."""
        faults = plan(self._seed, number, self._points, **self._shape)
        self._say(f"cycle {number}: " + "; ".join(map(str, faults)))
        for submitter in self._world.submitters.values():
            submitter.resume()
        await self._injector.run(faults)
        try:
            await self._world.wait_until_ready()
        except TimeoutError:
            not_serving = [name for name, process in self._world.processes.items() if not process.is_ready]
            self._world.complaints.append(f"{', '.join(not_serving)} did not serve again")

    async def _settle(self, number: int) -> OracleFindings:
        """Stop all faults, wait until all work has ended, and return the findings."""
        for proxy in self._world.proxies.values():
            proxy.clear()
        faults_ended = time.monotonic()
        unclean: dict[str, int] = {}
        try:
            async with asyncio.timeout(SETTLE_S):
                await asyncio.gather(*(submitter.rest() for submitter in self._world.submitters.values()))
                for turn in count():
                    if await self._is_settled(unclean):
                        break
                    if unclean and turn % POLLS_BETWEEN_REMOVALS == 0:
                        await self._world.remove_interrupted_pieces()
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            self._world.complaints.append(f"not settled {SETTLE_S:g} s after the last fault, cycle {number}")
        self.report.settled_s_max = round(max(self.report.settled_s_max, time.monotonic() - faults_ended), 1)
        findings = OracleFindings()
        try:
            findings = await asyncio.to_thread(oracle.judge, self._world)
            if not findings.good or unclean:
                leftover = self._world.folder / "leftover.txt"
                leftover.write_text(await asyncio.to_thread(oracle.dump, self._world))
        except psycopg.OperationalError as error:  # the database server of a node does not run
            findings.violations += [*self._world.complaints, str(error)]
        findings.unclean = unclean
        self._say(f"settled after {time.monotonic() - faults_ended:.1f} s: {self._counts()}")
        return findings

    async def _is_settled(self, unclean: dict[str, int]) -> bool:
        """Return whether all work has ended and all nodes serve; put the remaining rows into ``unclean``."""
        try:
            rows = await asyncio.to_thread(oracle.leftovers, self._world)
        except psycopg.OperationalError:
            return False  # a node restarts its server
        unclean.clear()
        unclean.update(rows)
        all_serve = all(process.is_ready for process in self._world.processes.values())
        return not rows and oracle.has_all(self._world) and all_serve

    async def _end(self) -> None:
        """Stop all processes, and complete the report, also with complaints about the stop."""
        report, world = self.report, self._world
        with suppress(psycopg.OperationalError):  # reported by the oracle already
            report.steps = await asyncio.to_thread(oracle.steps, world)
            report.ways = await asyncio.to_thread(oracle.messages_by_way, world)
        report.documents = self._counts()
        complaints = len(world.complaints)
        await world.stop()
        if world.direct and report.good:
            world.complaints += oracle.unused_ways(report.ways)
        report.violations += len(world.complaints) - complaints
        report.details += [f"violation: {text}" for text in world.complaints[complaints:]]
        report.faults_by_kind = dict(sorted(self._injector.done.items()))
        report.faults = sum(report.faults_by_kind.values())
        report.retired = self._injector.retired
        report.takeovers = dict(sorted(self._injector.taken_over.items()))
        fired = Counter(
            f"{name}/{point.rpartition(':')[0]}" for name, node in world.nodes.items() for point in node.fired
        )
        report.failpoints = dict(sorted(fired.items()))

    def _counts(self) -> dict[str, int]:
        world = self._world
        accepted = [document for side in SIDES for document in world.streams[side].accepted]
        return {
            "accepted": len(accepted),
            "class_3": sum(document.save_fwd == MUST for document in accepted),
            "to_group": sum(document.is_to_group for document in accepted),
            "in_pieces": sum(document.size > PIECES_FROM for document in accepted),
            "received": sum(consumer.received for consumer in world.consumers.values()),
            "submitted_again": sum(world.submitters[side].repeated for side in SIDES),
            "flagged_repeats": sum(consumer.repeats for consumer in world.consumers.values()),
            "starts": sum(process.starts for process in world.processes.values()),
            "failpoints_fired": sum(len(node.fired) for node in world.nodes.values()),
        }
