"""The check of extracts: every delivered folder gets a state, so that a bad extract never looks like loss.

Of several extracts of one ledger and date, at most one is used.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from typing import NamedTuple

from spark_reconcile.days import Window
from spark_reconcile.errors import BadExtract
from spark_reconcile.extracts.manifest import MANIFEST_FILE, MANIFEST_MAX, Manifest, Verify, date_folder, read_manifest
from spark_reconcile.sources.parts import CheckedFile, checked_contents, checked_file, other_ranges
from spark_reconcile.storage import Place

_THREADS = 4  # extracts that are checked at the same time


class State(NamedTuple):
    """A row of the table of states: whether the rows are used, whether a run must refuse, the meaning."""

    name: str
    used: bool
    refuses: bool
    meaning: str


STATES = (
    State("COMPLETE", True, False, "Manifest, hashes, rows and schema agree."),
    State("EMPTY", True, False, "Everything agrees, and the ledger has no line of this date."),
    State("REPEATED", False, False, "The same extract was delivered twice; one of them is used."),
    State("SUPERSEDED", False, False, "A later extract of the same ledger and date is used."),
    State("MISSING", False, False, "No extract of this date was delivered."),
    State("LATE", False, False, "It was delivered after the run of its date: repeat that run and all later ones."),
    State("UNFINISHED", False, False, "The folder has no manifest: it is still being delivered."),
    State("NOT_RUN", False, False, "Runs between an earlier run and this one are missing: documents were not judged."),
    State("MANIFEST_WRONG", False, True, "The manifest cannot be true."),
    State("UNKNOWN_SCHEMA", False, True, "The extract is of a schema version that this job does not know."),
    State("TRUNCATED", False, True, "A file is shorter than in its manifest, or incomplete."),
    State("ALTERED", False, True, "A file is not the one that its manifest describes."),
    State("OTHER_ROWS", False, True, "The files do not hold the rows that the manifest states."),
    State("OTHER_NODE", False, True, "Rows were written by another node or store than the manifest states."),
    State("UNSIGNED", False, True, "Signatures are required, and the manifest has none."),
    State("BAD_SIGNATURE", False, True, "The signature is not that of the node."),
    State("CONFLICTING", False, True, "Two different extracts claim the same ledger, date and watermark."),
)
STATE = {state.name: state for state in STATES}  # keyed by name


# Names of missing sources whose ledger is unknown.
THE_HUB = "the hub"  # none of its ledgers is known
UNKNOWN_STORE = "a store of the hub"  # only the institutions that it serves are known


@dataclass(frozen=True, slots=True)
class Source:
    """One extract, delivered or missing."""

    day: date
    source: str  #: node and store, such as 1.10008.1.1; the folder's name if the manifest is unreadable
    state: str  #: name of a row of STATES
    note: str = ""  #: reason of the state, or a remark, for the report
    manifest: Manifest | None = None
    folder: Place | None = None

    @property
    def is_used(self) -> bool:
        return STATE[self.state].used

    @property
    def node(self) -> str:
        """The node of the ledger, according to the folder's name if the manifest is unreadable."""
        return self.manifest.node if self.manifest else node_of(self.source)

    @property
    def files(self) -> list[Place]:
        if self.manifest is None or self.folder is None:
            return []
        return [self.folder / part.name for part in self.manifest.files]

    @property
    def uris(self) -> list[str]:
        return [file.uri_to_read for file in self.files]

    def facts(self) -> dict[str, object]:
        m = self.manifest
        return {
            "business_date": self.day.isoformat(),
            "source": self.source,
            "role": m.role if m else "",
            "state": self.state,
            "note": self.note,
            "rows": m.rows if m else 0,
            "window": [m.window_start, m.window_end] if m else None,
            "watermark": m.watermark if m else None,
            "clock_skew_ms": m.clock_skew_ms if m else None,
            "signed_by": m.signature.key_id if m and m.signature else "",
            "sha256": [part.sha256 for part in m.files] if m else [],
        }


def node_of(source: str) -> str:
    """Return the node of a ledger such as 1.10008.1.1; any other name is returned unchanged."""
    parts = source.split(".")
    return ".".join(parts[:2]) if len(parts) == 4 else source


def gather(root: Place, days: Iterable[date], verify: Verify | None = None) -> list[Source]:
    """Check all extracts of some business dates below ``root``. With ``verify``, signatures are required."""
    folders = [(day, folder) for day in days for folder in (root / date_folder(day)).folders()]
    with ThreadPoolExecutor(_THREADS) as pool:  # hashing releases the interpreter lock
        sources = list(pool.map(lambda pair: _examine(pair[0], pair[1], verify), folders))
    return sorted(_choose(sources), key=lambda source: (source.day, source.source, source.state))


def missing(required: Iterable[str], sources: Sequence[Source], day: date) -> list[Source]:
    """Return a source in the state MISSING for each required node or ledger that has no usable extract of a date."""
    present = [source.source for source in sources if source.day == day and source.is_used]
    return [
        Source(day, name, "MISSING")
        for name in sorted(set(required))
        if not any(ledger == name or ledger.startswith(f"{name}.") for ledger in present)
    ]


def _examine(day: date, folder: Place, verify: Verify | None) -> Source:
    name = folder.name.removeprefix("ledger=")
    if not (folder / MANIFEST_FILE).exists():
        return Source(day, name, "UNFINISHED", folder=folder)
    try:
        content = (folder / MANIFEST_FILE).read(MANIFEST_MAX)
        manifest = read_manifest(content)
    except OSError as error:
        return Source(day, name, "MANIFEST_WRONG", f"it cannot be read: {str(error)[:120]}", folder=folder)
    except BadExtract as error:
        note = str(error.facts.get("why") or error.facts.get("schema_version") or "")
        return Source(day, name, str(error.facts["state"]), note, folder=folder)
    source = Source(day, manifest.source, "COMPLETE" if manifest.rows else "EMPTY", "", manifest, folder)
    state, note = _manifest_fault(manifest, day, verify)
    if state:
        return replace(source, state=state, note=note)
    checks: list[CheckedFile] = []
    for part in manifest.files:
        check = checked_file(part, folder / part.name, manifest)
        if check.state:
            if _is_replaced(folder, content):  # then the files of the earlier extract are gone
                return _examine(day, folder, verify)
            return replace(source, state=check.state, note=check.note)
        checks.append(check)
    return replace(source, note=other_ranges(manifest, checks))


def unreadable_part(source: Source) -> str:
    """Return the name of a used extract and the fault of its first file that cannot be decoded; empty without one."""
    assert source.manifest is not None
    assert source.folder is not None
    for part in source.manifest.files:
        check = checked_contents(part, source.folder / part.name, source.manifest, decode_all=True)
        if check.state:
            return f"{source.source}: {check.note}"
    return ""


def _is_replaced(folder: Place, content: bytes) -> bool:
    """Whether a folder no longer has this manifest."""
    try:
        return (folder / MANIFEST_FILE).read(MANIFEST_MAX) != content
    except OSError:
        return True


def _manifest_fault(manifest: Manifest, day: date, verify: Verify | None) -> tuple[str, str]:
    """Return the state and the reason if the date or the signature of a manifest is wrong; else empty texts."""
    if manifest.day != day:
        return "MANIFEST_WRONG", f"it states the date {manifest.business_date}"
    return signature_fault(manifest, verify) if verify is not None else ("", "")


def signature_fault(manifest: Manifest, verify: Verify) -> tuple[str, str]:
    """Return the state and the reason if the signature of a manifest is missing or wrong; else empty texts."""
    if manifest.signature is None:
        return "UNSIGNED", ""
    if not verify(manifest.node, manifest.signed_bytes(), manifest.signature, manifest.watermark):
        return "BAD_SIGNATURE", f"key {manifest.signature.key_id}"
    return "", ""


def _choose(sources: Sequence[Source]) -> list[Source]:
    """Return all extracts, with at most one used of a ledger and date: the one with the latest watermark."""
    by_ledger: dict[tuple[date, str], list[Source]] = {}
    for source in sources:
        by_ledger.setdefault((source.day, source.source), []).append(source)
    result: list[Source] = []
    for group in by_ledger.values():
        usable = [source for source in group if source.is_used and source.manifest is not None]
        result += [source for source in group if source not in usable]
        result += _rank(usable) if len(usable) > 1 else usable
    return result


def _rank(sources: list[Source]) -> list[Source]:
    """Return the usable extracts of one ledger and date; those that are not used have the state that says why."""

    def reach(source: Source) -> tuple[int, int]:
        assert source.manifest is not None
        return source.manifest.watermark, source.manifest.rows

    def content(source: Source) -> list[tuple[str, int]]:
        assert source.manifest is not None
        return sorted((part.sha256, part.rows) for part in source.manifest.files)

    sources.sort(key=lambda source: (reach(source), str(source.folder)), reverse=True)
    latest, result = sources[0], []
    rivals = [
        source for source in sources if reach(source)[0] == reach(latest)[0] and content(source) != content(latest)
    ]
    for source in sources:
        note = source.folder.name if source.folder else ""
        if rivals and (source is latest or source in rivals):
            result.append(replace(source, state="CONFLICTING", note=note))
        elif source is latest:
            result.append(source)
        elif content(source) == content(latest):
            result.append(replace(source, state="REPEATED", note=note))
        else:
            result.append(replace(source, state="SUPERSEDED", note=note))
    return result


def window_groups(sources: Iterable[Source]) -> dict[Window, list[str]]:
    """Return the addresses of the files of the used sources, by the window of their manifests."""
    groups: dict[Window, list[str]] = {}
    for source in sources:
        if source.is_used and source.manifest is not None:
            groups.setdefault(source.manifest.window, []).extend(source.uris)
    return {window: sorted(uris) for window, uris in sorted(groups.items())}
