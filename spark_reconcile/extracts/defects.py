"""Defects planted into extracts, to test that they are found: ``semq reconcile plant``, and ``./run demo --inject``.

Each defect is planted into one message about which all three ledgers agree: its lines in the extracts are changed, and
moved back in time, so that the message is not in flight. The extracts are read into memory, so they must be small.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import NamedTuple

import pyarrow.parquet as pq

from semq.clock import Clock
from semq.store.rows import Event, Side
from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadRunRequest
from spark_reconcile.extracts.extract import Extract, LedgerOrigin, batches_of
from spark_reconcile.extracts.manifest import Manifest, Sign
from spark_reconcile.sources.inputs import gather
from spark_reconcile.storage import Place
from spark_reconcile.tables import Row as Line

S, H, R = Side.SENDER, Side.HUB, Side.RECEIVER
MOVED_BACK_MS = 60_000
ROWS_MAX = 1_000_000
Change = Callable[[list[Line]], list[Line]]


class Planted(NamedTuple):
    """A planted defect and the verdict that a run must find."""

    lk0: str
    verdict: str
    how: str  #: description of the change


def _without(*unwanted: tuple[Side, Event | None]) -> Change:
    """Return a change that leaves out the lines of a side with an event; None: all lines of the side."""

    def change(lines: list[Line]) -> list[Line]:
        return [line for line in lines if not {(line["side"], line["event"]), (line["side"], None)} & set(unwanted)]

    return change


def _is_record(line: Line) -> bool:
    return bool(line["side"] == R and line["event"] == Event.RECEIVED)


def _other_bytes(lines: list[Line]) -> list[Line]:
    return [{**line, "digest": line["digest"][::-1]} if _is_record(line) else line for line in lines]


def _record_twice(lines: list[Line]) -> list[Line]:
    second = [{**line, "seq": line["seq"] + (1 << 40), "at": line["at"] + 1} for line in lines if _is_record(line)]
    return [*lines, *second]


_RECEIPT = ((S, Event.DELIVERED), (R, Event.SENDER_ACKED))
# Verdict | change to a delivered message | description.
DEFECTS: tuple[tuple[str, Change, str], ...] = (
    ("NOT_DELIVERED", _without((R, None), *_RECEIPT), "the receiver's lines and the sender's receipt left out"),
    ("DIGEST_MISMATCH", _other_bytes, "another digest at the receiver"),
    ("DUPLICATE_DELIVERED", _record_twice, "recorded a second time"),
    ("ACK_NOT_RETURNED", _without(*_RECEIPT), "the sender's receipt left out"),
    ("UNKNOWN_ORIGIN", _without((S, None)), "the sender's lines left out"),
    ("STATE_CONTRADICTION", _without((H, None)), "the hub's lines left out"),
)  # fmt: skip


def plant(
    root: Place, day: date, calendar: Calendar, clock: Clock, signers: Mapping[str, Sign | None] | None = None
) -> list[Planted]:
    """Plant one defect of each row of DEFECTS into the extracts of a date; fewer, if there are fewer suitable messages.

    ``signers``: by node, the signing function for its changed extract; without one, the extract loses its signature.
    Raises BadRunRequest if the extracts are too large.
    """
    sources = [source for source in gather(root, [day]) if source.manifest is not None and source.is_used]
    if sum(source.manifest.rows for source in sources if source.manifest) > ROWS_MAX:
        raise BadRunRequest("These extracts are too large to plant defects.", rows_max=ROWS_MAX)
    ledgers = {source.source: list(_lines(source.folder, source.manifest)) for source in sources}
    stories: dict[str, list[Line]] = {}
    for line in (line for lines in ledgers.values() for line in lines):
        stories.setdefault(line["lk0"], []).append(line)
    suitable = sorted(lk0 for lk0, lines in stories.items() if _is_suitable(lines))
    planted: list[Planted] = []
    changed: dict[str, list[Line]] = {}
    for lk0, (verdict, change, how) in zip(suitable, DEFECTS, strict=False):
        earliest = calendar.window(day).start
        changed[lk0] = change([{**line, "at": max(line["at"] - MOVED_BACK_MS, earliest)} for line in stories[lk0]])
        planted.append(Planted(lk0, verdict, how))
    changed_lines = [line for lines in changed.values() for line in lines]
    for source in sources:
        assert source.manifest is not None
        lines = [line for line in ledgers[source.source] if line["lk0"] not in changed]
        lines += [line for line in changed_lines if f"{line['node']}.{line['store']}" == source.source]
        sign = (signers or {}).get(source.manifest.node)
        _rewrite(root, source.manifest, calendar, clock, lines, sign)
    return planted


def _lines(folder: Place | None, manifest: Manifest | None) -> Iterable[Line]:
    assert folder is not None
    assert manifest is not None
    for part in manifest.files:
        with (folder / part.name).open() as stream:
            yield from pq.read_table(stream).to_pylist()


def _is_suitable(lines: list[Line]) -> bool:
    present = {(line["side"], line["event"]) for line in lines}
    return present >= {
        (S, Event.ACCEPTED), (H, Event.FORWARDED), (R, Event.RECEIVED), (S, Event.DELIVERED), (R, Event.SENDER_ACKED)
    }  # fmt: skip


def _rewrite(
    root: Place, old: Manifest, calendar: Calendar, clock: Clock, lines: list[Line], sign: Sign | None
) -> None:
    origin = LedgerOrigin(old.node, old.store, old.role, old.clock_skew_ms, old.semq_version)
    with Extract(root, origin, old.day, calendar, clock, sign=sign) as extract:
        extract.add_all(batches_of(lines))
        extract.finish()
