"""The inputs of a run: the extracts that are used, their periods, and the messages that an earlier run left open.

Collected on the driver before Spark reads a row; a run that must be refused is refused here. The fingerprint identifies
the inputs: two runs with the same fingerprint and version of this package publish the same bytes.
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
from spark_reconcile.judgement.assessment import FAR, EvidenceCoverage, Ground
from spark_reconcile.run import runs
from spark_reconcile.run.runs import Run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.sources import inputs, mentions
from spark_reconcile.sources.clocks import WRONG_FROM_MS
from spark_reconcile.sources.inputs import STATE, THE_HUB, Source
from spark_reconcile.storage import Place

VERSION = 4  #: version of the job's rules; part of the fingerprint, so that a changed grid changes it
HUB_REMEMBERED_DAYS = 14  #: days for which a ledger of the hub stays expected after a run has read it
NAMED_BY_OTHERS = "ledgers of others name a copy in it"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The inputs of one run."""

    day: date
    window: Window
    sources: tuple[Source, ...]
    carried: Run | None
    fingerprint: str
    young_ms: int
    has_hub: bool = True  #: whether the institutions have a hub

    @property
    def groups(self) -> dict[Window, list[str]]:
        """The files to read, by window."""
        return inputs.window_groups(self.sources)

    @property
    def hubs(self) -> frozenset[str]:
        """The hub's nodes, of any of these dates."""
        known = (source.manifest for source in self.sources if source.is_used)
        return frozenset(m.node for m in known if m is not None and m.role == "platform")

    @property
    def rows(self) -> int:
        """The number of lines in all files."""
        return sum(source.manifest.rows for source in self.sources if source.is_used and source.manifest)

    @property
    def stated_skew(self) -> dict[str, int]:
        """The clock differences stated in the manifests of the date, by node."""
        return {
            one.manifest.node: one.manifest.clock_skew_ms
            for one in self._today()
            if one.manifest is not None and one.manifest.clock_skew_ms is not None
        }

    @property
    def is_partial(self) -> bool:
        """Whether a delivered or expected extract is not used."""
        return any(STATE[source.state].refuses or source.state in ("MISSING", "UNFINISHED") for source in self.sources)

    def with_stores(self, stores: Collection[str]) -> "Evidence":
        """Return the same with the hub's stores that other ledgers name; those without an extract are absent."""
        known = {one.source.split(".", 2)[2] for one in self._of_hub()}
        hub = min(self.hubs, default=THE_HUB)
        new = [Source(self.day, f"{hub}.{store}", "MISSING", NAMED_BY_OTHERS) for store in sorted(set(stores) - known)]
        return replace(self, sources=(*self.sources, *new)) if self.hubs else self

    def _of_hub(self) -> list[Source]:
        """Return the known ledgers of the hub, delivered or not."""
        return [one for one in self.sources if one.node != one.source and (one.node in self.hubs or _is_hub(one))]

    def ground(
        self, skew: Mapping[str, int], first: Mapping[str, int], unserved: frozenset[str] = frozenset()
    ) -> Ground:
        """Return the data for judging messages, with the estimated clocks at the end and at ``first``.

        If a clock was slow at first, its ledger begins later than its times say: the difference is added.
        """
        spans = self._without_gap()
        slower = {node: skew.get(node, 0) - first.get(node, 0) for node in {*skew, *first}}
        late = {node: ms for node, ms in slower.items() if ms >= WRONG_FROM_MS}  # less is what clocks drift in a day
        ledgers = tuple(
            EvidenceCoverage(m.node, m.store, reach, skew.get(m.node, 0), since + late.get(m.node, 0))
            for one in self._today()
            for since, reach in [spans[one.source]]
            if (m := one.manifest) is not None
        )
        here = {one.source for one in self._today()}
        # Extracts without a readable manifest count only if they are expected on this date.
        known = {one.source: one.node for one in self.sources if one.manifest is not None or one.day == self.day}
        hubs = {one.source for one in self._of_hub()} & known.keys()
        of_hubs = [one for one in ledgers if f"{one.node}.{one.store}" in hubs]
        return Ground(
            self.window,
            self.young_ms,
            ledgers,
            hub_complete=(bool(of_hubs) or not self.has_hub) and hubs <= here,
            hub_watermark=min((one.watermark for one in of_hubs), default=FAR),
            hub_since=max((one.since for one in of_hubs), default=-FAR),
            incomplete=frozenset(node for source, node in known.items() if source not in here and source != node),
            unserved=unserved,
            has_hub=self.has_hub,
        )

    def _today(self) -> list[Source]:
        return [source for source in self.sources if source.day == self.day and source.is_used]

    def _without_gap(self) -> dict[str, tuple[int, int]]:
        """Return, per ledger, the longest gap-free period of evidence that contains the date."""
        extracts: dict[str, list[Manifest]] = {}
        for one in sorted(self.sources, key=lambda one: one.day):
            if one.is_used and one.manifest is not None:
                extracts.setdefault(one.source, []).append(one.manifest)
        return {one.source: _span(extracts[one.source], self.day) for one in self._today() if one.manifest is not None}


def _is_hub(source: Source) -> bool:
    """Whether an extract is the hub's, according to a correct manifest, else to its name."""
    if source.manifest is not None and source.state != "MANIFEST_WRONG":
        return source.manifest.role == "platform"
    return source.node.startswith(f"{int(NodeType.PLATFORM)}.")


def _span(extracts: Sequence[Manifest], day: date) -> tuple[int, int]:
    """Return begin and end of the gap-free evidence around this date, from one ledger's extracts by date."""
    here = next(m for m in extracts if m.day == day)
    since, reach = here.window_start, here.watermark
    for earlier in reversed([m for m in extracts if m.day < day]):
        if earlier.watermark < since:
            break
        since = min(since, earlier.window_start)
    for later in (m for m in extracts if m.day > day):
        if later.window_start > reach:
            break
        reach = max(reach, later.watermark)
    return since, reach


def believe(
    settings: ReconcileSettings, day: date, *, allow_partial: bool = False, verify: Verify | None = None
) -> Evidence:
    """Collect the inputs of a date. Raises BadExtract or SourcesMissing unless ``allow_partial``."""
    days = neighbours(day, settings.days_before, settings.days_after)
    found = inputs.gather(Place.at(settings.extracts), days, verify)
    found = [*found, *_missing(settings, found, day)]
    if not allow_partial:
        _refuse(found)
    carried = _carried(settings, day)
    return Evidence(
        day=day,
        window=settings.calendar.window(day),
        sources=tuple(found),
        carried=carried,
        fingerprint=_fingerprint(settings, day, found, carried),
        young_ms=settings.in_flight_s * 1000,
        has_hub=settings.hub,
    )


def _missing(settings: ReconcileSettings, found: Sequence[Source], day: date) -> list[Source]:
    """Return the expected sources without an extract of this date.

    Expected are required sources, the hub, ledgers that delivered a neighbouring date, and ledgers of the hub that
    published runs of the last weeks have read.
    """
    neighbours_had = {one.source for one in found if one.is_used and one.day != day}
    unusable = {one.source for one in found if one.day == day}
    absent = inputs.missing({*settings.required, *neighbours_had, *_hub_had(settings, day)}, found, day)
    if settings.hub and not any(
        one.manifest and one.manifest.role == "platform" and one.is_used for one in found if one.day == day
    ):
        absent.append(Source(day, THE_HUB, "MISSING"))
    return [source for source in absent if source.source not in unusable]


def _hub_had(settings: ReconcileSettings, day: date) -> set[str]:
    """Return the ledgers of the hub that published runs of the last weeks have read."""
    published = runs.history(Place.at(settings.reports), day, HUB_REMEMBERED_DAYS)
    read = (source for _, summary in published for source in summary.get("sources", ()))
    return {one["source"] for one in read if one["role"] == "platform" and STATE[one["state"]].used}


def _refuse(found: Sequence[Source]) -> None:
    bad = [source for source in found if STATE[source.state].refuses]
    if bad:
        raise BadExtract(
            f"{len(bad)} extracts cannot be used.",
            sources=[f"{one.day} {one.source} {one.state} {one.note}".strip() for one in bad[:20]],
        )


def refuse_missing(evidence: Evidence, settings: ReconcileSettings) -> None:
    """Raise SourcesMissing if the hub's source or a required one is missing: nothing is published then. Without a hub
    (``hub = false``) its source is not among the expected ones.
    """
    needed = {THE_HUB, *settings.required}
    absent = [source.source for source in evidence.sources if source.state == "MISSING" and source.source in needed]
    unusable = [name for name in settings.required if inputs.missing([name], evidence.sources, evidence.day)]
    if absent or unusable:
        raise SourcesMissing(sources=sorted({*absent, *unusable}), business_date=evidence.day.isoformat())


def refuse_unheard(evidence: Evidence) -> None:
    """Raise SourcesMissing if the lines of the date name a ledger or a node that has not delivered."""
    absent = mentions.absent_sources(evidence.sources, evidence.day)
    if absent:
        raise SourcesMissing(sources=absent[:50], business_date=evidence.day.isoformat())


def _carried(settings: ReconcileSettings, day: date) -> Run | None:
    """Return the latest earlier run whose open messages can be judged again without a gap in the lines."""
    for step in range(1, settings.days_before + 2):
        run = runs.current(Place.at(settings.reports), day - timedelta(days=step))
        if run is not None and run.verdicts.exists():
            return run
    return None


def _fingerprint(settings: ReconcileSettings, day: date, found: Sequence[Source], carried: Run | None) -> str:
    judged_by = {
        name: getattr(settings, name)
        for name in ("zone", "cutoff", "in_flight_s", "carry_days", "csv_rows_max", "stories_max", "names")
    }
    facts = ({} if settings.hub else {"hub": False}) | {
        "version": VERSION,
        "day": day.isoformat(),
        "settings": judged_by,
        "limits": msgspec.to_builtins(settings.limits),
        "pair_limits": msgspec.to_builtins(settings.pair_thresholds),
        "sources": [one.facts() for one in found],
        "carried": carried.summary.get("fingerprint", "") if carried else "",
    }
    return hashlib.sha256(canonical(facts)).hexdigest()
