"""Extracts that were delivered after the run of their date. To use them, repeat that run and all later ones."""

from collections.abc import Collection, Iterable
from datetime import date

from spark_reconcile.errors import BadExtract
from spark_reconcile.extracts.manifest import MANIFEST_FILE, MANIFEST_MAX, Manifest, date_folder, read_manifest
from spark_reconcile.run import runs
from spark_reconcile.run.runs import Run
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import STATE, THE_HUB, Source
from spark_reconcile.storage import Place


def marked(gaps: Iterable[Gap], extracts: Place, reports: Place, day: date, carried: Run | None) -> list[Gap]:
    """Return the gaps, with ``is_late`` where a repetition of earlier runs closes the gap.

    ``day``: date of the present run; ``carried``: the run whose open messages it judges again.
    """
    dates: dict[date, _EarlierDate] = {}
    result = []
    for gap in gaps:
        if gap.day < day:
            if gap.day not in dates:
                dates[gap.day] = _EarlierDate(extracts, reports, gap.day, carried)
            gap = gap._replace(is_late=dates[gap.day].has_unused(gap.name))
        result.append(gap)
    return result


def sources(gaps: Iterable[Gap], known: Collection[Source]) -> list[Source]:
    """Return a source in the state LATE for each late gap that ``known`` does not have in this state."""
    late = {(source.source, source.day) for source in known if source.state == "LATE"}
    return [Source(gap.day, gap.name, "LATE") for gap in gaps if gap.is_late and (gap.name, gap.day) not in late]


def has_unseen(extracts: Place, reports: Place, day: date) -> bool:
    """Return whether a complete extract of a date has arrived that the present run of the date has not examined."""
    run = runs.current(reports, day)
    known = run.summary.get("sources", ()) if run is not None else ()
    seen = {(each["source"], each["watermark"], tuple(each["sha256"])) for each in known}
    return any(
        (m.source, m.watermark, tuple(part.sha256 for part in m.files)) not in seen for m in _complete(extracts, day)
    )


class _EarlierDate:
    """The complete extracts of an earlier date, and those that its current run has used."""

    def __init__(self, extracts: Place, reports: Place, day: date, carried: Run | None) -> None:
        self._delivered = _complete(extracts, day)
        run = runs.current(reports, day)
        known = run.summary.get("sources", ()) if run is not None else ()
        of_date = (each for each in known if each["business_date"] == f"{day}")
        self._used = {(each["source"], each["watermark"]) for each in of_date if STATE[each["state"]].used}
        # The messages of a repeated run are carried only by runs after it.
        self._is_stale = run is not None and carried is not None and run.began > carried.began

    def has_unused(self, name: str) -> bool:
        """Whether the open messages lack a delivered extract. ``name``: as in ``Gap``."""
        ledgers = [m for m in self._delivered if name in (m.source, m.node) or (name == THE_HUB and m.is_hub)]
        return bool(ledgers) and (self._is_stale or any((m.source, m.watermark) not in self._used for m in ledgers))


def _complete(extracts: Place, day: date) -> list[Manifest]:
    """Return the manifests of a date's extracts that were made after its end."""
    manifests = (_manifest(folder) for folder in (extracts / date_folder(day)).folders())
    return [m for m in manifests if m is not None and m.day == day and m.watermark >= m.window_end]


def _manifest(folder: Place) -> Manifest | None:
    try:
        return read_manifest((folder / MANIFEST_FILE).read(MANIFEST_MAX))
    except (OSError, BadExtract):
        return None
