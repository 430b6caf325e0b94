"""Verdicts of a date without a report, in two thirds of the time that a run takes."""

import io
from datetime import date

from pyspark.sql import SparkSession

from semq.clock import SystemClock
from spark_reconcile.progress import Progress
from spark_reconcile.run import job, runs
from spark_reconcile.run.runs import Run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.sources import gaps
from spark_reconcile.sources.evidence import collect_evidence
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import StandingClock


def judge(
    settings: ReconcileSettings, day: date, clock: StandingClock, spark: SparkSession
) -> tuple[Run, job.JudgedMessages]:
    """Judge the messages of a date, and make this run the current one of the date."""
    evidence = collect_evidence(settings, day)
    run = runs.begin(Place.at(settings.reports), day, clock, evidence.fingerprint)
    judged = job.judge(spark, settings, evidence, run, Progress(SystemClock(), io.StringIO()))
    (run.place / job.STAGING).remove()
    runs.point_to(Place.at(settings.reports), run)
    return run, judged


def missing_ledgers(judged: job.JudgedMessages, settings: ReconcileSettings) -> list[str]:
    """Return the names of the missing ledgers, as in the result of a run."""
    return gaps.missing(judged.evidence.sources, job.absent_ledgers(judged, settings, is_any_missed=True))
