"""The inputs of a run: the extracts, their periods, and the messages that an earlier run left open.

All inputs are collected and checked before Spark reads a row. Runs with equal fingerprints and versions of this package
publish equal tables.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import msgspec

from semq.umx_t.address import NodeType
from spark_reconcile.days import Window, neighbours
from spark_reconcile.errors import BadExtract, SourcesMissing
from spark_reconcile.extracts.manifest import Manifest, Verify, canonical
from spark_reconcile.judgement.assessment import FAR, EvidenceCoverage, JudgementContext
from spark_reconcile.run import runs
from spark_reconcile.run.runs import Run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.sources import inputs, mentions
from spark_reconcile.sources.clocks import WRONG_FROM_MS
from spark_reconcile.sources.inputs import STATE, THE_HUB, Source
from spark_reconcile.storage import Place

VERSION = 5  #: version of the rules of judgement
HUB_REMEMBERED_DAYS = 14  #: days for which a ledger of the hub stays expected after a run has used it
RUN_OF = "the run of "
NAMED_BY_OTHERS = "ledgers of other nodes name copies in this store"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The inputs of one run."""

    day: date
    window: Window
    sources: tuple[Source, ...]
    carried: Run | None  #: the earlier run whose open messages are judged again
    fingerprint: str
    young_ms: int  #: ``settings.in_flight_s``
    has_hub: bool = True  #: whether the institutions have a hub
    is_over: bool = True  #: whether the run began after the end of the date

    @property
    def groups(self) -> dict[Window, list[str]]:
        return inputs.window_groups(self.sources)

    @property
    def hubs(self) -> frozenset[str]:
        """The nodes of the hub with a used extract."""
        manifests = (source.manifest for source in self.sources if source.is_used)
        return frozenset(m.node for m in manifests if m is not None and m.role == "platform")

    @property
    def rows(self) -> int:
        return sum(source.manifest.rows for source in self.sources if source.is_used and source.manifest)

    @property
    def carried_messages(self) -> int:
        """The number of messages in the verdicts of the carried run."""
        summary = self.carried.summary if self.carried is not None else {}
        return int(summary.get("messages", 0)) + int(summary.get("carried", {}).get("messages", 0))

    @property
    def stated_skew(self) -> dict[str, int]:
        """The clock differences in the manifests of the date, by node."""
        return {
            source.manifest.node: source.manifest.clock_skew_ms
            for source in self._used_on_date()
            if source.manifest is not None and source.manifest.clock_skew_ms is not None
        }

    @property
    def is_partial(self) -> bool:
        """Whether an extract is missing, unfinished, unusable or too early, or earlier dates must be run (again)."""
        absent = ("MISSING", "UNFINISHED", "NOT_RUN", "LATE")
        return bool(self.early) or any(STATE[s.state].refuses or s.state in absent for s in self.sources)

    @property
    def early(self) -> list[str]:
        """The ledgers whose extract was made before the end of the date, although the run was not."""
        manifests = (source.manifest for source in self._used_on_date() if self.is_over)
        return [m.source for m in manifests if m is not None and m.watermark < m.window_end]

    def with_stores(self, stores: Collection[str]) -> "Evidence":
        """Return the evidence with a missing source for each of ``stores`` that has no extract.

        ``stores``: stores of the hub. If no ledger of the hub is used, return this evidence.
        """
        if not self.hubs:
            return self
        known = {source.source.split(".", 2)[2] for source in self._hub_sources()}
        absent = sorted(set(stores) - known)
        missing = [Source(self.day, f"{min(self.hubs)}.{store}", "MISSING", NAMED_BY_OTHERS) for store in absent]
        return replace(self, sources=(*self.sources, *missing))

    def _hub_sources(self) -> list[Source]:
        ledgers = (source for source in self.sources if source.node != source.source)
        return [source for source in ledgers if source.node in self.hubs or _is_hub(source)]

    def judgement_context(
        self, skew: Mapping[str, int], first: Mapping[str, int], unserved: frozenset[str] = frozenset()
    ) -> JudgementContext:
        """Return the data for judging messages.

        ``skew``, ``first``: corrections of clocks by node, for the end and for the beginning of the ledgers.
        ``unserved``: see ``readings.Survey``.
        """
        periods = self._periods()
        slower = {node: skew.get(node, 0) - first.get(node, 0) for node in {*skew, *first}}
        # If a clock was slower in the first hour, the ledger begins later than stated, by the difference. Differences
        # below WRONG_FROM_MS are drift.
        late = {node: ms for node, ms in slower.items() if ms >= WRONG_FROM_MS}
        ledgers: list[EvidenceCoverage] = []
        for source in self._used_on_date():
            m = source.manifest
            if m is not None:
                begin, end = periods[source.source]
                correction = skew.get(m.node, 0)
                ledgers.append(EvidenceCoverage(m.node, m.store, end, correction, begin + late.get(m.node, 0)))
        delivered = {source.source for source in self._used_on_date()}
        expected = {
            source.source: source.node
            for source in self.sources
            if source.manifest is not None or source.day == self.day
        }
        hub_names = {source.source for source in self._hub_sources()} & expected.keys()
        hub_ledgers = [ledger for ledger in ledgers if f"{ledger.node}.{ledger.store}" in hub_names]
        return JudgementContext(
            self.window,
            self.young_ms,
            tuple(ledgers),
            hub_complete=(bool(hub_ledgers) or not self.has_hub) and hub_names <= delivered,
            hub_watermark=min((ledger.watermark for ledger in hub_ledgers), default=FAR),
            hub_since=max((ledger.since for ledger in hub_ledgers), default=-FAR),
            incomplete=frozenset(node for name, node in expected.items() if name not in delivered and name != node),
            unserved=unserved,
            has_hub=self.has_hub,
        )

    def _used_on_date(self) -> list[Source]:
        return [source for source in self.sources if source.day == self.day and source.is_used]

    def _periods(self) -> dict[str, tuple[int, int]]:
        extracts: dict[str, list[Manifest]] = {}
        for source in sorted(self.sources, key=lambda source: source.day):
            if source.is_used and source.manifest is not None:
                extracts.setdefault(source.source, []).append(source.manifest)
        names = (source.source for source in self._used_on_date() if source.manifest is not None)
        return {name: _period(extracts[name], self.day) for name in names}


def _is_hub(source: Source) -> bool:
    """Whether an extract is of the hub: by the role in a correct manifest, else by the type of the node."""
    if source.manifest is not None and source.state != "MANIFEST_WRONG":
        return source.manifest.role == "platform"
    return source.node.startswith(f"{int(NodeType.PLATFORM)}.")


def _period(extracts: Sequence[Manifest], day: date) -> tuple[int, int]:
    """Return start and end of the gap-free evidence around a date. ``extracts``: of one ledger, by date."""
    of_day = next(m for m in extracts if m.day == day)
    begin, end = of_day.window_start, of_day.watermark
    for earlier in reversed([m for m in extracts if m.day < day]):
        if earlier.watermark < begin:
            break
        begin = min(begin, earlier.window_start)
    for later in (m for m in extracts if m.day > day):
        if later.window_start > end:
            break
        end = max(end, later.watermark)
    return begin, end


def collect_evidence(
    settings: ReconcileSettings,
    day: date,
    *,
    allow_partial: bool = False,
    verify: Verify | None = None,
    is_over: bool = True,
) -> Evidence:
    """Collect the inputs of a date. Raises BadExtract for an unusable extract unless ``allow_partial``.

    ``is_over``: whether the date is over.
    """
    days = neighbours(day, settings.days_before, settings.days_after)
    sources = inputs.gather(Place.at(settings.extracts), days, verify)
    sources += [*_missing(settings, sources, day), *_missing_runs(settings, day), *_late(settings, sources, day)]
    if not allow_partial:
        _refuse_unusable(sources)
    carried = carried_run(settings, day)
    return Evidence(
        day=day,
        window=settings.calendar.window(day),
        sources=tuple(sources),
        carried=carried,
        fingerprint=_fingerprint(settings, day, sources, carried, is_over=is_over),
        young_ms=settings.in_flight_s * 1000,
        has_hub=settings.hub,
        is_over=is_over,
    )


def _missing(settings: ReconcileSettings, sources: Sequence[Source], day: date) -> list[Source]:
    """Return the expected sources without an extract of this date: required sources, the hub, ledgers that delivered a
    neighbouring date, and ``_remembered_of_hub``.
    """
    on_neighbours = {source.source for source in sources if source.is_used and source.day != day}
    of_date = [source for source in sources if source.day == day]
    absent = inputs.missing({*settings.required, *on_neighbours, *_remembered_of_hub(settings, day)}, sources, day)
    hub_delivered = any(source.is_used and source.manifest and source.manifest.role == "platform" for source in of_date)
    if settings.hub and not hub_delivered:
        absent.append(Source(day, THE_HUB, "MISSING"))
    # ``sources`` includes unusable extracts.
    delivered = {source.source for source in of_date}
    return [source for source in absent if source.source not in delivered]


def _remembered_of_hub(settings: ReconcileSettings, day: date) -> set[str]:
    published = runs.history(Place.at(settings.reports), day, HUB_REMEMBERED_DAYS)
    sources = (source for _, summary in published for source in summary.get("sources", ()))
    return {source["source"] for source in sources if source["role"] == "platform" and STATE[source["state"]].used}


def _refuse_unusable(sources: Sequence[Source]) -> None:
    bad = [source for source in sources if STATE[source.state].refuses]
    if bad:
        raise BadExtract(
            "An extract cannot be used." if len(bad) == 1 else f"{len(bad)} extracts cannot be used.",
            sources=[f"{source.day} {source.source} {source.state} {source.note}".strip() for source in bad[:20]],
        )


def refuse_without_required(evidence: Evidence, settings: ReconcileSettings) -> None:
    """Raise SourcesMissing if the hub or a required source has no usable extract of the date."""
    absent = {source.source for source in inputs.missing(settings.required, evidence.sources, evidence.day)}
    if any(source.source == THE_HUB and source.state == "MISSING" for source in evidence.sources):
        absent.add(THE_HUB)
    if absent:
        raise _sources_missing(sorted(absent), evidence, settings)


def refuse_without_named(evidence: Evidence, settings: ReconcileSettings) -> None:
    """Raise SourcesMissing if a source is missing, also one that is only named in lines of the date."""
    absent = mentions.absent_sources(evidence.sources, evidence.day)
    if absent:
        raise _sources_missing(absent[:50], evidence, settings)


def _sources_missing(sources: Sequence[str], evidence: Evidence, settings: ReconcileSettings) -> SourcesMissing:
    folder = str(Place.at(settings.extracts))
    return SourcesMissing(sources=sources, business_date=evidence.day.isoformat(), extracts=folder)


def carried_run(settings: ReconcileSettings, day: date) -> Run | None:
    """Return the latest final run of the ``days_before`` + 1 dates before ``day``; None without one."""
    for step in range(1, settings.days_before + 2):
        run = runs.final(Place.at(settings.reports), day - timedelta(days=step), settings.calendar)
        if run is not None and run.verdicts.exists():
            return run
    return None


def fingerprint_of(run: Run | None) -> str:
    """Return the fingerprint of a run's inputs; empty without a run."""
    return str(run.summary.get("fingerprint", "")) if run is not None else ""


def _missing_runs(settings: ReconcileSettings, day: date) -> list[Source]:
    """Return a source in the state NOT_RUN if dates between the latest final run and ``day`` lack a final run.

    No run has judged the messages of these dates, nor again those that the latest final run left open, if it is too
    early to be carried.
    """
    reports, oldest = Place.at(settings.reports), day - timedelta(days=settings.carry_days)
    published = [other for other in runs.dates(reports) if oldest <= other < day and runs.current(reports, other)]
    if not published:
        return []
    judged = [other for other in published if runs.final(reports, other, settings.calendar)]
    first = judged[-1] + timedelta(days=1) if judged else published[0]
    if first == day:
        return []
    note = f"Repair: semq reconcile backfill --from {first} --to {day}"
    return [Source(first, f"{RUN_OF}{first}", "NOT_RUN", note)]


def _late(settings: ReconcileSettings, sources: Sequence[Source], day: date) -> list[Source]:
    """Return a source in the state LATE for each extract of an earlier date whose ledger the run of that date lacked.

    Messages of that date that only this ledger has are in no run. (For messages that a run has, see ``late.marked``.)
    A ledger was not lacked if the run used any extract of it that was made after the end of the date.
    """
    result = []
    for earlier in sorted({source.day for source in sources if source.day < day}):
        run = runs.final(Place.at(settings.reports), earlier, settings.calendar)
        known = run.summary.get("sources") if run is not None else None
        if known is None:
            continue
        complete = {
            each["source"]
            for each in known
            if each["business_date"] == f"{earlier}"
            and STATE[each["state"]].used
            and each["watermark"] >= each["window"][1]
        }
        note = f"Repair: semq reconcile backfill --from {earlier} --to {day}"
        result += [
            Source(earlier, m.source, "LATE", note)
            for m in (source.manifest for source in sources if source.day == earlier and source.is_used)
            if m is not None and m.rows and m.watermark >= m.window_end and m.source not in complete
        ]
    return result


def _fingerprint(
    settings: ReconcileSettings, day: date, sources: Sequence[Source], carried: Run | None, *, is_over: bool
) -> str:
    relevant = {
        name: getattr(settings, name)
        for name in ("zone", "cutoff", "in_flight_s", "carry_days", "csv_rows_max", "stories_max", "names")
    }
    # Default values are left out, so that the fingerprints of runs of earlier versions stay the same.
    unusual = ({} if settings.hub else {"hub": False}) | ({} if is_over else {"over": False})
    facts = unusual | {
        "version": VERSION,
        "day": day.isoformat(),
        "settings": relevant,
        "limits": msgspec.to_builtins(settings.limits),
        "pair_limits": msgspec.to_builtins(settings.pair_thresholds),
        "sources": [source.facts() for source in sources],
        "carried": fingerprint_of(carried),
    }
    return hashlib.sha256(canonical(facts)).hexdigest()
