"""One run: check the inputs, judge each message, apply thresholds, write the report. ``run`` lists the steps.

Called by the command line, by ``backfill`` and under ``spark-submit``. A run writes into its own folder and moves the
pointer of its date last; after any earlier failure the published run is unchanged.
"""

from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from typing import Any

from pyspark.sql import SparkSession

from semq.clock import Clock
from semq.errors import SemqError
from spark_reconcile.days import DAY_MS, neighbours
from spark_reconcile.extracts.manifest import Sign, Verify, date_folder
from spark_reconcile.judgement import assessment
from spark_reconcile.judgement.facts import read_lines
from spark_reconcile.progress import Progress
from spark_reconcile.repair import repair_list
from spark_reconcile.report import write_report
from spark_reconcile.report.banner import outcome_of
from spark_reconcile.report.findings import Findings, tally
from spark_reconcile.run import limits, runs, stages
from spark_reconcile.run.documents import write_documents
from spark_reconcile.run.runs import Run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.sources import clocks, gaps
from spark_reconcile.sources.evidence import Evidence, believe, refuse_missing, refuse_unheard
from spark_reconcile.spark import session
from spark_reconcile.storage import Place

STAGING = "_staging"

# Outcomes of a run with their exit codes; the first row that applies.
OUTCOMES = {
    "being_run": 5,  # another process runs this date
    "refused": 65,  # an extract is unusable; nothing published
    "sources_missing": 4,  # a required source is missing; nothing published
    "implausible": 3,  # published, but the volume is not plausible
    "breached": 3,  # published, and a threshold is exceeded
    "partial": 7,  # published without some sources; their messages are SOURCE_MISSING
    "met": 0,  # published, complete, thresholds met
}


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run, for ``--json`` and _RESULT.json."""

    outcome: str
    exit_code: int
    business_date: str
    run: str = ""
    messages: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    carried: dict[str, int] = field(default_factory=dict)
    report: str = ""
    missing: list[str] = field(default_factory=list)
    breaches: list[dict[str, Any]] = field(default_factory=list)
    plausibility: dict[str, Any] = field(default_factory=dict)
    deeds: dict[str, int] = field(default_factory=dict)
    fingerprint: str = ""
    rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    created_at: str = ""

    def facts(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The arguments of a run."""

    day: date
    allow_partial: bool = False  #: ignore extracts that are missing or unusable
    require_all: bool = False  #: publish nothing unless all nodes in the ledgers of the date have delivered it
    verify: Verify | None = None  #: checks the signatures of the extracts, which are then required
    sign: Sign | None = None  #: signs the repair list
    master: str | None = None
    memory: str | None = None


def run(
    settings: ReconcileSettings,
    request: RunRequest,
    clock: Clock,
    progress: Progress,
    spark: SparkSession | None = None,
) -> RunResult:
    """Reconcile one business date and publish the result.

    Raises BadExtract, SourcesMissing, BeingRun, NoJava, SparkAway, SparkFailed.
    """
    reports = Place.at(settings.reports)
    with (reports / date_folder(request.day)).lock():
        with progress.step("read the manifests"):
            evidence = believe(settings, request.day, allow_partial=request.allow_partial, verify=request.verify)
        if not request.allow_partial:
            refuse_missing(evidence, settings)
        if request.require_all:
            with progress.step("look for absent ledgers"):
                refuse_unheard(evidence)
        with progress.step("start Spark"):
            spark = spark or session.start(master=request.master, memory=request.memory, rows=evidence.rows)
            session.fit_to(spark, evidence.rows)
            progress.session = spark
        runs.clear(reports, request.day, STAGING)
        this = runs.begin(reports, request.day, clock, evidence.fingerprint)
        try:
            with session.semq_errors():
                return _in_folder(spark, settings, request, evidence, this, reports, clock, progress)
        except BaseException as error:
            _note_failure(this, error, clock)
            raise
        finally:
            (this.place / STAGING).remove()


def _in_folder(
    spark: SparkSession,
    settings: ReconcileSettings,
    request: RunRequest,
    evidence: Evidence,
    this: Run,
    reports: Place,
    clock: Clock,
    progress: Progress,
) -> RunResult:
    begun = clock.monotonic()
    findings = _compare(spark, settings, evidence, this, progress)
    history = runs.history(reports, request.day, 7 * settings.plausible_weeks)
    _weigh(findings, settings, history)
    with progress.step("write the report"):
        deeds = _write_repair(findings, this, request.sign)
        write_report(findings, this.place, settings, history, clock, begun)
    result = _result(findings, evidence, this, deeds, progress, clock)
    runs.finish(this, result.facts())
    runs.point_to(reports, this)
    return result


def _compare(
    spark: SparkSession, settings: ReconcileSettings, evidence: Evidence, this: Run, progress: Progress
) -> Findings:
    """Run the stages that read rows."""
    staging = this.place / STAGING
    lines = read_lines(spark, evidence.groups)
    carried = stages.left_open(spark, evidence.carried.verdicts) if evidence.carried else None
    with progress.step("survey the ledgers"):
        survey = stages.survey(lines, evidence.window, staging / "survey")
        nodes, counted = stages.who_takes_part(survey)
        names = stages.names(spark, nodes, carried)
        stores, unserved = stages.hub_traces(survey, evidence.hubs)
        evidence = evidence.with_stores(stores)
    with progress.step("gather facts by message"):
        facts, others = stages.facts(lines, evidence.hubs, carried, evidence.window, staging / "facts")
    with progress.step("compare the clocks"):
        skews = clocks.estimate(facts, names)
        clock_ms = clocks.applied(skews, evidence.stated_skew)
        ground = evidence.ground(clock_ms, clocks.at_first(skews, evidence.stated_skew), frozenset(unserved))
    with progress.step("judge"):
        judged = assessment.judged(spark, facts, names, ground)
        oldest = evidence.window.start - settings.carry_days * DAY_MS
        verdicts, moved = stages.verdicts(judged, evidence.window, oldest, this.verdicts)
        (staging / "facts").remove()
    with progress.step("count the findings"):
        cells = stages.cells(verdicts, staging / "cells")
        numbers = tally(stages.profile(cells))
        absences = (
            stages.absences(verdicts, unserved, settings.calendar, evidence.day, settings.carry_days)
            if numbers.has("SOURCE_MISSING")
            else []
        )
    with progress.step("collect the exceptions"):
        their_lines = stages.their_lines(lines, verdicts, numbers.exceptions, staging / "their_lines")
        exceptions = stages.exceptions(verdicts, their_lines, this.place / "exceptions.parquet")
    with progress.step("judge the documents in pieces"):
        documents = write_documents(verdicts, this.place / "documents.parquet")
    with progress.step("add up the pairs"):
        pairs = stages.pairs(cells, this.place / "pairs.parquet")
        return Findings(
            day=evidence.day,
            window=evidence.window,
            calendar=settings.calendar,
            fingerprint=evidence.fingerprint,
            evidence_until=min([ground.hub_watermark, *(one.watermark - one.skew for one in ground.ledgers)]),
            sources=evidence.sources,
            is_partial=evidence.is_partial,
            skews=skews,
            clock_ms=clock_ms,
            lines=counted,
            tally=numbers,
            absent=gaps.gaps(
                evidence.sources,
                evidence.hubs,
                absences,
                neighbours(evidence.day, settings.days_before, settings.days_after),
            ),
            cells=cells,
            documents=documents,
            limited_pairs=stages.of_pairs(pairs, settings.pair_thresholds) if settings.pair_thresholds else [],
            exceptions=exceptions,
            their_lines=their_lines,
            other_dates={scope: count + moved[scope] for scope, count in others.items()},
        )


def _weigh(findings: Findings, settings: ReconcileSettings, history: list[tuple[date, dict[str, Any]]]) -> None:
    """Apply thresholds and plausibility."""
    findings.breaches = limits.breaches(findings.counts(), settings.limits)
    for pair, own in settings.pair_thresholds.items():
        findings.breaches += limits.breaches(findings.counts_of(pair), own)
    earlier = [
        summary["messages"] for day, summary in history if (findings.day - day) % timedelta(days=7) == timedelta()
    ]
    findings.plausibility = limits.plausibility(
        findings.messages, earlier, settings.plausible_low, settings.plausible_high
    )


def _write_repair(findings: Findings, this: Run, sign: Sign | None) -> dict[str, int]:
    index = repair_list.Index(findings.day.isoformat(), this.name, findings.fingerprint, {})
    place, staging = this.place / "repair", this.place / STAGING / "repair"
    deeds: dict[str, int] = {}
    if findings.tally.exceptions:
        deeds = repair_list.write_lists(findings.exceptions, place, staging, index)
    repair_list.write_index(place, index, sign)
    return deeds


def _result(
    findings: Findings, evidence: Evidence, this: Run, deeds: dict[str, int], progress: Progress, clock: Clock
) -> RunResult:
    outcome = outcome_of(findings)
    return RunResult(
        outcome=outcome,
        exit_code=OUTCOMES[outcome],
        business_date=findings.day.isoformat(),
        run=this.name,
        messages=findings.messages,
        verdicts=findings.verdicts,
        carried={name: count for name, count in findings.carried.items() if count},
        report=str(this.place / "report.html"),
        missing=gaps.missing(findings.sources, findings.absent),
        breaches=[breach._asdict() for breach in findings.breaches],
        plausibility=findings.plausibility._asdict(),
        deeds=deeds,
        fingerprint=findings.fingerprint,
        rows=evidence.rows,
        seconds=dict(progress.seconds),
        created_at=clock.wall().isoformat(timespec="seconds"),
    )


def _note_failure(this: Run, error: BaseException, clock: Clock) -> None:
    """Keep a failed run as a folder with its result; the pointer never moves to it."""
    text = f"{error}\n{error.__cause__ or ''}".strip() if isinstance(error, SemqError) else type(error).__name__
    moment = clock.wall().isoformat(timespec="seconds")
    result = RunResult("failed", 1, this.day.isoformat(), this.name, created_at=moment)
    runs.finish(this, {**result.facts(), "error": text[:2000]})
