"""Findings and extracts for tests, as a run would make them."""

from datetime import date
from typing import Any, cast

from spark_reconcile.days import Calendar
from spark_reconcile.extracts.manifest import Manifest
from spark_reconcile.report.findings import Findings, Tally
from spark_reconcile.sources.inputs import Source
from tests.spark_reconcile.office import DAY

UNUSED = cast(Any, None)  # a table that these tests do not read


def findings(**fields: Any) -> Findings:
    """Return findings with these fields, and defaults for the others."""
    calendar = Calendar()
    defaults: dict[str, Any] = {
        "day": DAY, "window": calendar.window(DAY), "calendar": calendar, "fingerprint": "f", "evidence_until": 0,
        "sources": (), "is_partial": False, "skews": {}, "clock_ms": {}, "lines": [], "tally": Tally((), {}, {}),
        "absent": [], "cells": UNUSED, "limited_pairs": [], "exceptions": UNUSED, "exception_lines": UNUSED,
        "other_dates": {"earlier": 0, "later": 0, "none": 0},
    }  # fmt: skip
    return Findings(**{**defaults, **fields})


def source(
    node: str, state: str = "COMPLETE", role: str = "local", day: date = DAY, store: str = "1.1", early_ms: int = 0
) -> Source:
    """Return an extract that was made ``early_ms`` before the end of its date; without a manifest if it is MISSING."""
    window = Calendar().window(day)
    manifest = Manifest(
        node=node, store=store, role=role, business_date=day.isoformat(), zone="UTC", cutoff="00:00", created_at="",
        window_start=window.start, window_end=window.end, watermark=window.end - early_ms, rows=1, files=(),
    )  # fmt: skip
    return Source(day, f"{node}.{store}", state, manifest=None if state == "MISSING" else manifest)
