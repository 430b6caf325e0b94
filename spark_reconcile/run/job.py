"""One run: check the inputs, judge each message, apply thresholds, write the report. Function ``run`` has the steps.

A run writes into its own folder and moves the pointer of its date last, so a failure before that leaves the published
run unchanged.
"""

from dataclasses import asdict, dataclass, field
from datetime import date, timedelta

from pyspark.sql import DataFrame, SparkSession

from semq.clock import Clock
from semq.errors import SemqError
from spark_reconcile.days import DAY_MS, neighbours
from spark_reconcile.errors import SparkFailed
from spark_reconcile.extracts.manifest import Sign, Verify, date_folder
from spark_reconcile.judgement import assessment
from spark_reconcile.judgement.assessment import JudgementContext
from spark_reconcile.judgement.facts import read_lines
from spark_reconcile.progress import Progress
from spark_reconcile.repair import repair_list
from spark_reconcile.report import write_report
from spark_reconcile.report.banner import outcome_of
from spark_reconcile.report.findings import Findings, tally
from spark_reconcile.report.sections import TREND_DAYS
from spark_reconcile.run import limits, readings, runs, stages
from spark_reconcile.run.documents import write_documents
from spark_reconcile.run.runs import Run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.sources import clocks, gaps, late
from spark_reconcile.sources.evidence import (
    Evidence,
    collect_evidence,
    fingerprint_of,
    refuse_without_named,
    refuse_without_required,
)
from spark_reconcile.sources.inputs import unreadable_part
from spark_reconcile.spark import session
from spark_reconcile.storage import Place

STAGING = "_staging"

# Outcomes of a run with their exit codes; the first that applies counts. A run that ends by another error is "failed".
OUTCOMES = {
    "being_run": 5,  # another process reconciles this date
    "refused": 65,  # an extract is unusable; nothing published
    "sources_missing": 4,  # a required source is missing; nothing published
    "implausible": 3,  # published, but the volume is not plausible
    "breached": 3,  # published, and a threshold is exceeded
    "partial": 7,  # published without some sources; messages that need them are SOURCE_MISSING
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
    verdicts: dict[str, int] = field(default_factory=dict)  #: messages of the date by verdict
    carried: dict[str, int] = field(default_factory=dict)  #: carried messages by verdict
    report: str = ""  #: path or address of report.html
    missing: list[str] = field(default_factory=list)  #: names of the ledgers that are missing or end too early
    breaches: list[dict[str, object]] = field(default_factory=list)
    plausibility: dict[str, object] = field(default_factory=dict)
    deeds: dict[str, int] = field(default_factory=dict)  #: messages in the repair lists by deed
    fingerprint: str = ""
    carried_from: str = ""  #: fingerprint of the run whose open messages were judged again
    rows: int = 0  #: lines read
    seconds: dict[str, float] = field(default_factory=dict)  #: duration by step
    created_at: str = ""

    def facts(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The arguments of a run."""

    day: date
    allow_partial: bool = False  #: ignore extracts that are missing or unusable
    require_all: bool = False  #: publish nothing if lines of the date name a ledger or node that has not delivered
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
    """Reconcile one business date and publish the result. Without ``spark``, start a session.

    Raises BadExtract, BadRunRequest, SourcesMissing, BeingRun, NoJava, SparkAway, SparkFailed.
    """
    reports = Place.at(settings.reports)
    with (reports / date_folder(request.day)).lock():
        began = clock.wall()
        with progress.step("read the manifests"):
            evidence = collect_evidence(
                settings, request.day, allow_partial=request.allow_partial, verify=request.verify,
                is_over=began.timestamp() * 1000 >= settings.calendar.window(request.day).end,
            )  # fmt: skip
        if not request.allow_partial:
            refuse_without_required(evidence, settings)
        if request.require_all:
            with progress.step("look for absent ledgers"):
                refuse_without_named(evidence, settings)
        with progress.step("start Spark"):
            rows = evidence.rows + evidence.carried_messages
            spark = spark or session.start(master=request.master, memory=request.memory, rows=rows)
            session.fit_to(spark, rows)
            progress.session = spark
        runs.remove_staging(reports, request.day, STAGING)
        new_run = runs.begin(reports, request.day, clock, evidence.fingerprint, began)
        try:
            with session.semq_errors():
                return _publish(spark, settings, request, evidence, new_run, reports, clock, progress)
        except BaseException as error:
            if isinstance(error, SparkFailed):
                _explain_failure(error, evidence)
            _note_failure(new_run, error, clock)
            raise
        finally:
            (new_run.place / STAGING).remove()


def _publish(
    spark: SparkSession,
    settings: ReconcileSettings,
    request: RunRequest,
    evidence: Evidence,
    new_run: Run,
    reports: Place,
    clock: Clock,
    progress: Progress,
) -> RunResult:
    begun = clock.monotonic()
    findings = _compare(spark, settings, evidence, new_run, progress)
    history = runs.history(reports, request.day, max(7 * settings.plausible_weeks, TREND_DAYS - 1))
    _apply_limits(findings, settings, history)
    with progress.step("write the report"):
        deeds = _write_repair(findings, new_run, request.sign)
        write_report(findings, new_run.place, settings, history, clock, begun)
    result = _result(findings, evidence, new_run, deeds, progress, clock)
    runs.finish(new_run, result.facts())
    runs.point_to(reports, new_run)
    return result


@dataclass(frozen=True, slots=True)
class JudgedMessages:
    """The verdicts of all messages, and the values on which they depend."""

    evidence: Evidence  #: also with a missing source for each store of the hub that other nodes name
    lines: DataFrame
    survey: readings.Survey
    skews: dict[str, clocks.Skew]  #: by node
    context: JudgementContext
    clock_ms: dict[str, int]  #: as in ``Findings``
    verdicts: DataFrame
    other_dates: dict[str, int]  #: as in ``Findings``


def judge(
    spark: SparkSession, settings: ReconcileSettings, evidence: Evidence, new_run: Run, progress: Progress
) -> JudgedMessages:
    """Run the stages from the lines to the verdicts, and write the table of verdicts."""
    staging = new_run.place / STAGING
    lines = read_lines(spark, evidence.groups)
    carried = stages.open_messages(spark, evidence.carried.verdicts) if evidence.carried else None
    with progress.step("survey the ledgers"):
        stages.survey(lines, evidence.window, staging / "survey")
        survey = readings.survey(staging / "survey", evidence.hubs)
        names = stages.names(spark, survey.nodes, carried)
        evidence = evidence.with_stores(survey.stores)
    with progress.step("gather facts by message"):
        facts, other_dates = stages.facts(lines, evidence.hubs, carried, evidence.window, staging / "facts")
    with progress.step("compare the clocks"):
        skews = clocks.estimate(facts, names)
        clock_ms = clocks.corrections(skews, evidence.stated_skew)
        context = evidence.judgement_context(
            clock_ms, clocks.first_corrections(skews, evidence.stated_skew), frozenset(survey.unserved)
        )
    with progress.step("judge"):
        assessed = assessment.judged(spark, facts, names, context)
        oldest_at = evidence.window.start - settings.carry_days * DAY_MS
        verdicts, moved_by_clocks = stages.verdicts(assessed, evidence.window, oldest_at, new_run.verdicts)
        (staging / "facts").remove()
    all_other = {scope: count + moved_by_clocks[scope] for scope, count in other_dates.items()}
    return JudgedMessages(evidence, lines, survey, skews, context, clock_ms, verdicts, all_other)


def _compare(
    spark: SparkSession, settings: ReconcileSettings, evidence: Evidence, new_run: Run, progress: Progress
) -> Findings:
    staging = new_run.place / STAGING
    judged = judge(spark, settings, evidence, new_run, progress)
    verdicts, context = judged.verdicts, judged.context
    with progress.step("count the findings"):
        cells = stages.cells(verdicts, staging / "cells")
        message_tally = tally(readings.profile(staging / "cells"))
        absent = absent_ledgers(judged, settings, is_any_missed=message_tally.has("SOURCE_MISSING"))
    with progress.step("collect the exceptions"):
        lines_place = staging / "exception_lines"
        exception_lines = stages.exception_lines(judged.lines, verdicts, message_tally.exceptions, lines_place)
        exceptions = stages.exceptions(
            verdicts, exception_lines, message_tally.exceptions, new_run.place / "exceptions.parquet"
        )
    with progress.step("judge the documents in pieces"):
        documents = write_documents(verdicts, new_run.place / "documents.parquet")
    with progress.step("add up the pairs"):
        stages.pairs(cells, new_run.place / "pairs.parquet")
        return Findings(
            day=evidence.day,
            window=evidence.window,
            calendar=settings.calendar,
            fingerprint=evidence.fingerprint,
            evidence_until=min(
                [context.hub_watermark, *(ledger.watermark - ledger.skew for ledger in context.ledgers)]
            ),
            sources=(*evidence.sources, *late.sources(absent, evidence.sources)),
            is_partial=evidence.is_partial,
            skews=judged.skews,
            clock_ms=judged.clock_ms,
            lines=judged.survey.lines,
            tally=message_tally,
            absent=absent,
            cells=staging / "cells",
            documents=documents,
            limited_pairs=readings.of_pairs(new_run.place / "pairs.parquet", settings.pair_thresholds)
            if settings.pair_thresholds
            else [],
            exceptions=exceptions,
            exception_lines=lines_place,
            other_dates=judged.other_dates,
        )


def absent_ledgers(judged: JudgedMessages, settings: ReconcileSettings, *, is_any_missed: bool) -> list[gaps.Gap]:
    """Return the missing extracts without which messages cannot be judged.

    ``is_any_missed``: whether a message has the verdict SOURCE_MISSING.
    """
    evidence, days = judged.evidence, (settings.days_before, settings.days_after)
    absences = (
        stages.absences(judged.verdicts, judged.survey.unserved, settings.calendar, evidence.day, settings.carry_days)
        if is_any_missed
        else []
    )
    found = gaps.gaps(evidence.sources, evidence.hubs, absences, neighbours(evidence.day, *days))
    extracts, reports = Place.at(settings.extracts), Place.at(settings.reports)
    return late.marked(found, extracts, reports, evidence.day, evidence.carried)


def _apply_limits(findings: Findings, settings: ReconcileSettings, history: runs.History) -> None:
    findings.breaches = limits.breaches(findings.counts(), settings.limits)
    for pair, pair_limits in settings.pair_thresholds.items():
        findings.breaches += limits.breaches(findings.counts_of(pair), pair_limits)
    days = {findings.day - timedelta(weeks=back + 1) for back in range(settings.plausible_weeks)}
    earlier = [summary["messages"] for day, summary in history if day in days]
    findings.plausibility = limits.plausibility(
        findings.messages, earlier, settings.plausible_low, settings.plausible_high
    )


def _write_repair(findings: Findings, new_run: Run, sign: Sign | None) -> dict[str, int]:
    index = repair_list.RepairIndex(findings.day.isoformat(), new_run.name, findings.fingerprint, {})
    place, staging = new_run.place / "repair", new_run.place / STAGING / "repair"
    deeds: dict[str, int] = {}
    if findings.tally.exceptions:
        deeds = repair_list.write_lists(findings.exceptions, place, staging, index)
    repair_list.write_index(place, index, sign)
    return deeds


def _result(
    findings: Findings, evidence: Evidence, new_run: Run, deeds: dict[str, int], progress: Progress, clock: Clock
) -> RunResult:
    outcome = outcome_of(findings)
    return RunResult(
        outcome=outcome,
        exit_code=OUTCOMES[outcome],
        business_date=findings.day.isoformat(),
        run=new_run.name,
        messages=findings.messages,
        verdicts=findings.verdicts,
        carried={name: count for name, count in findings.carried.items() if count},
        report=str(new_run.place / "report.html"),
        missing=sorted({*gaps.missing(findings.sources, findings.absent), *evidence.early}),
        breaches=[breach._asdict() for breach in findings.breaches],
        plausibility=findings.plausibility._asdict(),
        deeds=deeds,
        fingerprint=findings.fingerprint,
        carried_from=fingerprint_of(evidence.carried),
        rows=evidence.rows,
        seconds=dict(progress.seconds),
        created_at=clock.wall().isoformat(timespec="seconds"),
    )


def _explain_failure(error: SparkFailed, evidence: Evidence) -> None:
    """Name the extracts in the error that Spark could not read: delivered again during the run, or damaged inside."""
    used = [source for source in evidence.sources if source.is_used]
    if replaced := [source.source for source in used if not all(file.exists() for file in source.files)]:
        error.facts["replaced"] = replaced
        error.with_remedy("These extracts were delivered again while Spark read them: repeat the run.")
    elif damaged := [fault for source in used if (fault := unreadable_part(source))]:
        error.facts["damaged"] = damaged
        error.with_remedy("Remove the folders of these extracts, have their nodes extract the date again, then repeat.")


def _note_failure(new_run: Run, error: BaseException, clock: Clock) -> None:
    text = f"{error}\n{error.__cause__ or ''}".strip() if isinstance(error, SemqError) else type(error).__name__
    moment = clock.wall().isoformat(timespec="seconds")
    result = RunResult("failed", 1, new_run.day.isoformat(), new_run.name, created_at=moment)
    runs.finish(new_run, {**result.facts(), "error": text[:2000]})
