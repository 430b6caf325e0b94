"""Defects planted into extracts, to test that they are found: ``semq reconcile plant``, and ``./run demo --inject``.

For each row of the table below, a message about which all three ledgers agree is chosen and its lines in the extracts
are changed; the nodes and their ledgers are not touched. The lines are moved back in time, so that the message is not
in flight. Only for small extracts, because they are read into memory.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from semq.clock import Clock
from semq.store.rows import Event, Side
from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadRunRequest
from spark_reconcile.extracts.extract import Extract, LedgerOrigin, batches_of
from spark_reconcile.extracts.manifest import Manifest, Sign
from spark_reconcile.sources.inputs import gather
from spark_reconcile.storage import Place

S, H, R = Side.SENDER, Side.HUB, Side.RECEIVER
BACK_MS = 60_000
ROWS_MAX = 1_000_000
Line = dict[str, Any]
Change = Callable[[list[Line]], list[Line]]


class Planted(NamedTuple):
    """A planted defect and the verdict that a run must find."""

    lk0: str
    verdict: str
    how: str


def _without(*unwanted: tuple[Side, Event | None]) -> Change:
    """Leave out lines of a side, by event or (None) all."""
    return lambda lines: [
        line for line in lines if (line["side"], line["event"]) not in unwanted and (line["side"], None) not in unwanted
    ]


def _record(line: Line) -> bool:
    return bool(line["side"] == R and line["event"] == Event.RECEIVED)


def _other_bytes(lines: list[Line]) -> list[Line]:
    return [{**line, "digest": line["digest"][::-1]} if _record(line) else line for line in lines]


def _record_twice(lines: list[Line]) -> list[Line]:
    return [
        *lines,
        *({**line, "seq": line["seq"] + (1 << 40), "at": line["at"] + 1} for line in lines if _record(line)),
    ]


_UNTOLD = ((S, Event.DELIVERED), (R, Event.SENDER_ACKED))
# Verdict | change to a delivered message | description.
DEFECTS: tuple[tuple[str, Change, str], ...] = (
    ("NOT_DELIVERED", _without((R, None), *_UNTOLD), "the receiver's lines and the sender's receipt left out"),
    ("DIGEST_MISMATCH", _other_bytes, "another digest at the receiver"),
    ("DUPLICATE_DELIVERED", _record_twice, "recorded a second time"),
    ("ACK_NOT_RETURNED", _without(*_UNTOLD), "the sender's receipt left out"),
    ("UNKNOWN_ORIGIN", _without((S, None)), "the sender's lines left out"),
    ("STATE_CONTRADICTION", _without((H, None)), "the hub's lines left out"),
)  # fmt: skip


def plant(
    root: Place, day: date, calendar: Calendar, clock: Clock, signs: Mapping[str, Sign | None] | None = None
) -> list[Planted]:
    """Change the extracts of a date, with as many defects as there are suitable messages. Raises BadRequest.

    ``signs``: by node, a signer for its changed extract; without one, the extract loses its signature.
    """
    sources = [source for source in gather(root, [day]) if source.manifest is not None and source.is_used]
    if sum(source.manifest.rows for source in sources if source.manifest) > ROWS_MAX:
        raise BadRunRequest("These extracts are too large to plant defects.", rows_max=ROWS_MAX)
    ledgers = {source.source: list(_lines(source.folder, source.manifest)) for source in sources}
    stories: dict[str, list[Line]] = {}
    for line in (line for lines in ledgers.values() for line in lines):
        stories.setdefault(line["lk0"], []).append(line)
    whole = sorted(lk0 for lk0, lines in stories.items() if _is_whole(lines))
    done, changed = [], {}
    for lk0, (verdict, change, how) in zip(whole, DEFECTS, strict=False):
        earliest = calendar.window(day).start
        changed[lk0] = change([{**line, "at": max(line["at"] - BACK_MS, earliest)} for line in stories[lk0]])
        done.append(Planted(lk0, verdict, how))
    new = [line for lines in changed.values() for line in lines]
    for source in sources:
        assert source.manifest is not None
        kept = [line for line in ledgers[source.source] if line["lk0"] not in changed]
        own = [line for line in new if f"{line['node']}.{line['store']}" == source.source]
        sign = (signs or {}).get(source.manifest.node)
        _rewrite(root, source.manifest, calendar, clock, [*kept, *own], sign)
    return done


def _lines(folder: Place | None, manifest: Manifest | None) -> Iterable[Line]:
    assert folder is not None
    assert manifest is not None
    for part in manifest.files:
        with (folder / part.name).open() as stream:
            yield from pq.read_table(stream).to_pylist()


def _is_whole(lines: list[Line]) -> bool:
    """Whether its sender knows that it was delivered, the receiver that this was noted, and the hub had it."""
    present = {(line["side"], line["event"]) for line in lines}
    wanted = {(S, Event.ACCEPTED), (S, Event.DELIVERED), (R, Event.RECEIVED), (R, Event.SENDER_ACKED)}
    return wanted <= present and (H, Event.FORWARDED) in present


def _rewrite(
    root: Place, old: Manifest, calendar: Calendar, clock: Clock, lines: list[Line], sign: Sign | None
) -> None:
    origin = LedgerOrigin(old.node, old.store, old.role, old.clock_skew_ms, old.semq_version)
    with Extract(root, origin, old.day, calendar, clock, sign=sign) as extract:
        extract.add_all(batches_of(lines))
        extract.finish()
