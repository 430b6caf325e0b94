"""One campaign: traffic and faults for some minutes, then everything is healed and drained, and the judge compares.

The same seed draws the same documents in each lane and the same faults; what meets what depends on the machine.
"""

import asyncio
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from subprocess import CalledProcessError
from typing import Any

import psycopg

from bench.versions.checkout import Checkout, checkout
from tests.campaign import acts, faults, promises, samples, statements
from tests.campaign.judgement import KINDS, AgreementJudge, Disagreements
from tests.campaign.notebook import CANCELLED, CONFIRMED, IN_DOUBT, Handed, Notebook
from tests.campaign.plan import CampaignPlan
from tests.campaign.samples import Sample
from tests.campaign.senders import BYTES_PER_S, DoorAnswer, InDoubt, SenderProgram
from tests.campaign.statements import LedgerStatements
from tests.campaign.traffic import RUN_MAX, Traffic
from tests.campaign.world import BY_NAME, PROCESSES_OF_HUB, CampaignWorld, InstitutionRow
from tests.crash import node_requests

DRAIN_S = 120.0  # longest time from the last fault until nothing waits
POLL_S = 0.5
FIGURES_TRIED = 24  # times SETTLED_S
POLLS_BETWEEN_REMOVALS = 10
RETRY_S = 0.2
SHOWN_MAX = 15  # documents whose statements are printed
BATCH = 3  # documents in a transaction


@dataclass
class Report:
    """The result; ``--json`` prints it."""

    seed: int
    minutes: float
    documents: int = 0
    disagreements: int = 0  #: documents about which the statements differ
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    false_outcomes: int = 0
    verdict_disagreements: int = 0
    other: int = 0  #: bytes, attributes, records
    complaints: int = 0  #: faults of processes: ends without a cause, tracebacks, rows that are never settled
    faults: int = 0
    kills: int = 0
    rss_growth_mib: float = 0.0
    rows_growth: float = 0.0
    p99_ms_first: float = 0.0
    p99_ms_last: float = 0.0
    drained_s: float = 0.0
    seconds: float = 0.0
    documents_by_kind: dict[str, int] = field(default_factory=dict)
    documents_by_door: dict[str, int] = field(default_factory=dict)
    certainties: dict[str, int] = field(default_factory=dict)
    faults_by_kind: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=dict)
    #: documents handed over while a fault could refuse them, and how many it refused, by code
    effects: dict[str, list[int]] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    takeovers: dict[str, int] = field(default_factory=dict)  #: by fault of the former owner
    retired: int = 0  #: stores that were retired and replaced
    failpoints: list[str] = field(default_factory=list)  #: at which nodes have ended themselves
    folder: str = ""  #: kept after a failure
    descriptors_growth: float = 0.0
    size_growth_mib: float = 0.0  #: of all databases
    options: str = ""  #: of ``./run campaign``, if other than those given

    @property
    def is_good(self) -> bool:
        return self.documents > 0 and not (self.disagreements or self.complaints)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def page(self) -> str:
        """Return the report as HTML: figures, and charts of the samples."""
        facts = {name: value for name, value in self.as_json().items() if name not in ("details", "samples")}
        return samples.page(self.samples, f"Campaign, seed {self.seed}, {self.minutes:g} minutes", facts)


async def run(plan: CampaignPlan, say: Callable[[str], None]) -> Report:
    """Run one campaign in a folder of its own, which is kept after a failure."""
    folder = Path(tempfile.mkdtemp(prefix="semq-campaign-"))
    with checkout(plan.old, folder / "old") if plan.old else nullcontext() as older:
        return await _run_in(folder, DoorCampaign(folder, plan, say, older), say)


async def _run_in(folder: Path, campaign: "DoorCampaign", say: Callable[[str], None]) -> Report:
    try:
        report = await campaign.run()
    except BaseException:
        say(f"the files of the campaign are kept in {folder}")
        raise
    if report.is_good:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        report.folder = str(folder)
    return report


class DoorCampaign:
    def __init__(self, folder: Path, plan: CampaignPlan, say: Callable[[str], None], old: Checkout | None) -> None:
        self._notebook = Notebook(folder / "notebook.jsonl")
        self._world = CampaignWorld(folder, plan, self._notebook, old)
        self._faults = faults.CampaignFaults(self._world)
        self._folder, self._plan, self._say = folder, plan, say
        self._numbers = count(1)
        self._ends_at = 0.0
        self.report = Report(plan.seed, plan.minutes)

    async def run(self) -> Report:
        """Run the campaign; return its report."""
        started = time.monotonic()
        report = self.report
        try:
            await self._world.start(datetime.now(UTC).hour)
            self._say(f"all nodes serve after {time.monotonic() - started:.1f} s")
            recording = asyncio.create_task(samples.record(self._world, report.samples))
            await self._load()
            recording.cancel()
            await self._settle()
            found = await self._compare()
            self._describe(found)
            await self._world.stop()
        finally:
            await self._world.remove()
            self._notebook.close()
            report.seconds = round(time.monotonic() - started, 1)
        world = self._world
        report.details += [f"complaint: {text}" for text in world.complaints]
        report.complaints = len(world.complaints)
        return report

    # ------------------------------------------------------------ traffic and faults

    async def _load(self) -> None:
        """Hand over documents and strike until the time is over; return when each act has its answer."""
        self._ends_at = time.monotonic() + self._plan.minutes * 60
        world = self._world
        drawn = [(row, sender, world.traffic(row, door, lane, sender.can)) for row, door, lane, sender in world.senders]
        lanes = [asyncio.create_task(self._lane(*lane)) for lane in drawn if not lane[2].is_empty]
        await self._strike()
        for proxy in self._world.proxies.values():
            proxy.clear()
        await self._world.wait_until_ready()
        await acts.until_authority_is_changed(self._world)
        self._say("the last fault has ended; waiting for the answers")
        drain_s = self._drain_s
        done, pending = await asyncio.wait(lanes, timeout=drain_s) if lanes else (set(), set())
        for lane in pending:
            lane.cancel()
            self._world.complaints.append(f"a lane got no answer for {drain_s:.0f} s after the last fault")
        # What the others have handed over is judged all the same.
        self._world.complaints += [f"a lane ended: {error!r}" for lane in done if (error := lane.exception())]

    async def _lane(self, institution: InstitutionRow, sender: SenderProgram, traffic: Traffic) -> None:
        chance = Random(f"{self._plan.seed}/{institution.name}/pace")
        pause_s = len(self._world.senders) / self._plan.rate
        while time.monotonic() < self._ends_at:
            document = traffic.draw(next(self._numbers), int(time.time() * 1000))
            documents = [document]
            if "tx" in document.traits:
                documents += [traffic.like(document, next(self._numbers)) for _ in range(BATCH - 1)]
            run = chance.randint(1, RUN_MAX) if document.order_key else 1
            following = [traffic.following(document, next(self._numbers)) for _ in range(1, run)]
            for at_once in [documents, *([each] for each in following)]:
                await self._hand_over(sender, at_once)
            await asyncio.sleep(2 * run * pause_s * chance.random())

    async def _hand_over(self, sender: SenderProgram, documents: list[Handed]) -> None:
        """Hand over documents until the answer is certain, except for those that stay in doubt."""
        traits = documents[0].traits
        for document in documents:
            self._notebook.hand(document)
        while True:
            try:
                answer = await sender.hand(documents)
            except InDoubt as doubt:
                for document in documents:
                    self._notebook.note(document.number, IN_DOUBT, reason=repr(doubt.__cause__))
                if "doubtful" in traits:
                    return
                await asyncio.sleep(RETRY_S)
                continue
            break
        self._tell(documents, answer)
        if "repeat" in traits and answer.word == CONFIRMED:
            await self._repeat(sender, documents)
        if "cancel" in traits and answer.word == CONFIRMED:
            await self._cancel(documents[0])

    def _tell(self, documents: list[Handed], answer: DoorAnswer) -> None:
        for document in documents:
            self._notebook.tell(document, answer.word, lk0=answer.lk0, reason=answer.reason)

    async def _repeat(self, sender: SenderProgram, documents: list[Handed]) -> None:
        """Hand over a confirmed document again, with its token."""
        (document,) = documents
        try:
            answer = await sender.hand(documents)
        except InDoubt:
            return
        self._notebook.note(document.number, f"repeated: {answer.word}", lk0=answer.lk0, reason=answer.reason)
        if answer.word != document.certainty:
            self._world.complaints.append(
                f"document {document.number} was {document.certainty}, its repeat {answer.word}"
            )

    async def _cancel(self, document: Handed) -> None:
        refusal = await self._world.cancel(document)
        self._notebook.note(document.number, "cancelled", refusal=refusal)
        is_done = "SEMQ-1207" in refusal or f"outcome='{CANCELLED}'" in refusal  # an earlier answer was lost
        if refusal and document.ends == {CANCELLED} and not is_done:
            self._world.complaints.append(f"document {document.number} could not be cancelled: {refusal}")

    async def _strike(self) -> None:
        for number in count(1):
            plan = faults.plan(self._plan, number)
            if time.monotonic() + plan.pause_s > self._ends_at:
                break
            if plan.faults:
                self._say(f"{self._ends_at - time.monotonic():5.0f} s left: " + "; ".join(map(str, plan.faults)))
            await self._faults.strike(plan.faults)
            await asyncio.sleep(plan.pause_s)
        await asyncio.sleep(max(self._ends_at - time.monotonic(), 0))

    # ------------------------------------------------------------ the end

    @property
    def _drain_s(self) -> float:
        """The time within which everything has to end after the last fault."""
        return (
            DRAIN_S
            + 2 * sum(each.size for each in self._notebook.documents.values() if "huge" in each.traits) / BYTES_PER_S
        )

    async def _settle(self) -> None:
        """Wait until nothing waits at any node, and the applications were told all outcomes."""
        began = time.monotonic()
        rows: dict[str, int] = {}
        try:
            async with asyncio.timeout(self._drain_s):
                for turn in count():
                    try:
                        rows = await asyncio.to_thread(statements.waiting, self._world)
                    except psycopg.OperationalError:  # a node restarts its server
                        rows = {"a database": 1}
                    if not rows and all(process.is_ready for process in self._world.processes.values()):
                        break
                    if turn % POLLS_BETWEEN_REMOVALS == 0:
                        await self._remove_pieces()
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            self._world.complaints.append(f"rows wait {self._drain_s:.0f} s after the last fault: {rows}")
            leftover = self._folder / "leftover.txt"
            leftover.write_text(await asyncio.to_thread(statements.dump, self._world))
        self.report.drained_s = round(time.monotonic() - began, 1)
        self._say(f"drained after {self.report.drained_s} s: {rows or 'nothing waits'}")

    async def _remove_pieces(self) -> None:
        """Remove refused documents in pieces, which wait for an operator, and the pieces of interrupted uploads."""
        for name in BY_NAME:
            node = self._world.nodes[name]
            with suppress(psycopg.OperationalError):  # a node restarts its server
                if ids := await asyncio.to_thread(statements.refused_in_pieces, self._world, name):
                    await node_requests.ask_or_refused(node, "failed.remove", ids=ids)
            await node_requests.ask(node, "job.run", name="remains")

    async def _compare(self) -> Disagreements:
        await asyncio.sleep(statements.SETTLED_S)  # the last events
        await self._world.tell_states()
        stated: LedgerStatements = await asyncio.to_thread(statements.read_ledgers, self._world)
        self._world.complaints += [f"alarm: {line}" for line in acts.unexplained(self._world, stated.alarms)]
        wrong: list[str] = []
        for tries_left in reversed(range(FIGURES_TRIED)):  # a busy node counts its last lines later
            wrong = await statements.wrong_figures(self._world, stated)
            if not wrong or not tries_left:
                break
            await asyncio.sleep(statements.SETTLED_S)
        self._world.complaints += [f"figures: {text}" for text in wrong]
        await statements.add_missing(self._world, stated)
        self._say("the ledgers are extracted and compared")
        try:
            await statements.add_verdicts(self._world, stated)
        except CalledProcessError as error:
            self._world.complaints.append(f"the reconciliation failed: {error.cmd} {error.stderr}")
        self._world.complaints += await asyncio.to_thread(lambda: list(statements.tracebacks(self._world)))
        processes = (self._world.nodes[name] for name in PROCESSES_OF_HUB.values())
        self._notebook.hub_outages += [(at, at) for process in processes for at in process.killed_at]
        self.report.effects = promises.effects(self._notebook, stated)
        self._world.complaints += promises.without_effect(self.report.effects)
        self.report.verdicts = dict(Counter(row.verdict for row in stated.verdicts.values()))
        findings = AgreementJudge(self._notebook, stated).judge()
        for number in sorted(findings.texts)[:SHOWN_MAX]:
            self.report.details += self._statements_about(number, findings, stated)
        return findings

    def _statements_about(self, number: int, findings: Disagreements, stated: LedgerStatements) -> list[str]:
        """Return the four statements about a document, and its time line."""
        lines = [f"document {number}: {text}" for text in findings.texts[number]]
        document = self._notebook.documents.get(number)
        if document is not None:
            lines.append(
                f"  notebook: {document.kind} by {document.door} of {document.source} to {document.receivers},"
                f" {document.certainty} {document.refusal}"
            )
            lines.append(f"  told: {document.outcomes}")
        for story in stated.by_number.get(number, []):
            row = stated.verdicts.get(story.lk0)
            lines += [f"  ledgers: {story.described()}", f"  verdict: {row}"]
        if document is not None:
            lines += [f"    {line}" for line in self._notebook.time_line(number)]
        return lines

    def _describe(self, findings: Disagreements) -> None:
        report, documents = self.report, list(self._notebook.documents.values())
        report.documents = len(documents)
        report.disagreements = len(findings.numbers)
        for kind in KINDS:
            setattr(report, kind, len(findings.by_kind[kind]))
        report.faults_by_kind = dict(sorted(self._faults.done.items()))
        report.faults, report.kills = sum(report.faults_by_kind.values()), self._faults.kills
        report.takeovers, report.retired = dict(self._faults.taken_over), self._faults.retired
        report.failpoints = sorted(
            {f"{name}/{point}" for name, node in self._world.nodes.items() for point in node.fired}
        )
        report.documents_by_kind = dict(Counter(document.kind for document in documents))
        report.documents_by_door = dict(Counter(document.door for document in documents))
        report.certainties = dict(Counter(document.certainty for document in documents))
        report.rss_growth_mib = samples.growth(report.samples, "rss_mib")
        report.descriptors_growth = samples.growth(report.samples, "descriptors")
        report.size_growth_mib = samples.growth(report.samples, "size_mib")
        report.rows_growth = samples.growth(report.samples, "rows")
        report.p99_ms_first, report.p99_ms_last = samples.p99_ms(self._notebook.latencies)
        (self._folder / "findings.json").write_text(json.dumps(findings.by_kind, indent=1), encoding="utf-8")
