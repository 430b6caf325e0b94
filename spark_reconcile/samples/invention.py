"""Generated ledgers with known defects, of any size: for benchmarks, demonstrations and tests of a cluster.

Each message follows one of the courses below; each course has the verdict that the job must give. The truth is written
apart from the extracts, in a form that the job never reads. Columns are made for one slice of the day at a time, so
that memory is bounded.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from semq.clock import Clock
from semq.store.rows import Event, Side
from spark_reconcile.days import DAY_MS, Calendar
from spark_reconcile.extracts.extract import Extract, LedgerOrigin
from spark_reconcile.extracts.manifest import canonical
from spark_reconcile.extracts.schema import ARROW_SCHEMA
from spark_reconcile.storage import Place

HUB = "2.hub"
# the incarnation of every store is this and the date, so that messages of different dates have different names
INC = "3f2a"
SLICE = 50_000  # messages per slice
_TAIL_MS = 7_200_000
_LEAD_MS = 60_000  # without messages, because some of their lines would be in the extracts of the day before
Numbers = npt.NDArray[np.int64]

# Pieces of a course: lines as side:EVENT@milliseconds. Letters after the time: c with a stored copy's locator, x with
# other bytes, o outside the dates of the extract.
PIECES = {
    "go": "S:ACCEPTED@0 S:SENT@3",
    "forward": "H:FORWARDED@24",
    "forwarded": "S:FORWARDED@46",
    "record": "R:RECEIVED@40",
    "deliver": "S:DELIVERED@90",
    "noted": "R:SENDER_ACKED@120",
    "store": "H:STORED@24c S:STORED@46c",
    "unload": "H:SENT@3600000c",
    "record2": "R:RECEIVED@3600020c",
    "release": "H:RELEASED@3600050c R:PLATFORM_ACKED@3600080c",
    "deliver2": "S:DELIVERED@3600090 R:SENDER_ACKED@3600130",
}
# Verdict, part of all messages (0: the rest; late: some, in the last minutes), class, then pieces and single lines.
COURSES = """
MATCHED             0      3  go forward record forwarded deliver noted
MATCHED             0.05   3  go store unload record2 release deliver2
MATCHED             0.01   1  go forward record
IN_FLIGHT           late   3  go forward
WAITING_OFFLINE     0.0005 3  go store
DROPPED_BY_POLICY   0.0005 1  go H:DROPPED@24 S:DROPPED@46
REFUSED             0.0003 3  go H:REFUSED@24 S:REJECTED@46
LOST_BEST_EFFORT    0.0002 1  go forward
PARKED              0.0001 3  go forward record forwarded deliver noted R:PARKED@500000
MISSING_AT_HUB      0.0002 3  go
MISSING_AT_HUB      0.0001 3  go S:STORED@46c
NOT_DELIVERED       0.0002 3  go forward forwarded
NOT_DELIVERED       0.0001 3  go store unload
ACK_NOT_RETURNED    0.0003 3  go forward record forwarded
ACK_NOT_RETURNED    0.0001 3  go store unload record2 deliver2
REACK_NOT_RETURNED  0.0003 3  go forward record forwarded deliver
DUPLICATE_DELIVERED 0.0001 3  go forward record forwarded deliver noted R:RECEIVED@700000
DIGEST_MISMATCH     0.0001 3  go forward R:RECEIVED@40x forwarded deliver noted
UNKNOWN_ORIGIN      0.0001 3  forward record
STATE_CONTRADICTION 0.0001 3  go forward forwarded deliver
QUARANTINED         0.0001 3  go forward record forwarded deliver R:SENDER_ACKED@120o
"""
_DIGESTS = {(Side.SENDER, Event.ACCEPTED), (Side.RECEIVER, Event.RECEIVED)}
_SIDES = {"S": Side.SENDER, "H": Side.HUB, "R": Side.RECEIVER}


class CourseStep(NamedTuple):
    """One line of a course."""

    side: Side
    event: Event
    after_ms: int
    marks: str


class Course(NamedTuple):
    """A course: its lines, its share of all messages, and the verdict."""

    verdict: str
    part: float
    is_late: bool
    save_fwd: int
    steps: tuple[CourseStep, ...]


def _read(text: str) -> list[Course]:
    courses = []
    for row in text.strip().splitlines():
        verdict, part, save_fwd, *pieces = row.split()
        steps = " ".join(PIECES.get(piece, piece) for piece in pieces).split()
        late = part == "late"
        courses.append(Course(verdict, 0.0005 if late else float(part), late, int(save_fwd), tuple(map(_step, steps))))
    return courses


def _step(text: str) -> CourseStep:
    side, _, rest = text.partition(":")
    event, _, when = rest.partition("@")
    after = when.rstrip("xoc")
    return CourseStep(_SIDES[side], Event[event], int(after), when[len(after) :])


ALL = _read(COURSES)


@dataclass(slots=True)
class Truth:
    """The truth about the generated extracts: the verdicts to find, and the number of rows."""

    messages: int = 0
    rows: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)


def generate(
    root: Place,
    truth: Place,
    day: date,
    calendar: Calendar,
    clock: Clock,
    messages: int,
    *,
    nodes: int = 8,
    seed: int = 1,
    defects: float = 1.0,
    skew: bool = True,
) -> Truth:
    """Write the extracts of ``nodes`` institutions and the hub for one date; the truth about them goes below ``truth``.

    ``defects`` multiplies the parts of all courses but the first; ``skew``: one institution sends half of everything.
    """
    dice = np.random.default_rng((seed, day.toordinal()))
    window = calendar.window(day)
    made = Truth()
    truth.make()
    with ExitStack() as stack:
        names = [f"1.{10001 + number}" for number in range(nodes)]
        extracts = [
            stack.enter_context(
                Extract(root, LedgerOrigin(name, role="platform" if name == HUB else "local"), day, calendar, clock)
            )
            for name in (*names, HUB)
        ]
        ledgers = [_Ledger(name, extract) for name, extract in zip((*names, HUB), extracts, strict=True)]
        stream = stack.enter_context((truth / "truth.parquet").writer())
        known = stack.enter_context(pq.ParquetWriter(stream, _TRUTH, compression="zstd"))
        for first in range(0, messages, SLICE):
            batch = _Slice(first, min(SLICE, messages - first), messages, nodes, dice, defects, skew, window.start, day)
            for ledger, number in zip(ledgers, (*range(nodes), -1), strict=True):
                batch.write(ledger, number, names)
            known.write_table(batch.truth(names, made))
        made.rows = sum(extract.finish().rows for extract in extracts)
    made.messages = messages
    (truth / "truth.json").write(canonical({"messages": messages, "rows": made.rows, "verdicts": made.verdicts}))
    return made


_TRUTH = pa.schema([("lk0", pa.string()), ("verdict", pa.string())])


class _Ledger:
    """One node's ledger and the number of its next line."""

    def __init__(self, name: str, extract: Extract) -> None:
        self.name, self.extract, self.seq = name, extract, 1


class _Slice:
    """A slice of messages: sender, receiver and course of each."""

    def __init__(
        self,
        first: int,
        count: int,
        of: int,
        nodes: int,
        dice: np.random.Generator,
        defects: float,
        skew: bool,
        begin: int,
        day: date,
    ) -> None:
        self.ids: Numbers = np.arange(first + 1, first + count + 1, dtype=np.int64)
        self.senders: Numbers = dice.integers(0, nodes, count)
        if skew:
            self.senders = np.where(dice.random(count) < 0.5, 0, self.senders)
        self.receivers: Numbers = (self.senders + dice.integers(1, max(nodes, 2), count)) % nodes
        parts = np.array([course.part * (1 if index == 1 else defects) for index, course in enumerate(ALL)])
        parts[0] = max(1 - parts[1:].sum(), 0)
        self.courses: Numbers = dice.choice(len(ALL), count, p=parts / parts.sum())
        room = DAY_MS - _TAIL_MS - _LEAD_MS
        self.accepted: Numbers = begin + _LEAD_MS + (self.ids - 1) * room // of + dice.integers(0, 1000, count)
        late = np.array([course.is_late for course in ALL])[self.courses]
        self.accepted = np.where(late, begin + DAY_MS - dice.integers(60_000, 600_000, count), self.accepted)
        self.jitter: Numbers = dice.integers(0, 10, count)
        self.digests = np.frombuffer(dice.bytes(32 * count).hex().encode(), dtype="S64")
        self._begin = begin
        self._inc = f"{INC}{day:%Y%m%d}"

    def write(self, ledger: _Ledger, node: int, names: list[str]) -> None:
        """Write the lines of one node in this slice, ordered by time; node -1 is the hub."""
        lines = list(self._lines(node))
        if not lines:
            return
        who = np.concatenate([index for index, _, _, _ in lines])
        at = np.concatenate([times for _, times, _, _ in lines])
        step = np.concatenate([np.full(len(index), number) for number, (index, _, _, _) in enumerate(lines)])
        order = np.argsort(at, kind="stable")
        who, at, step = who[order], at[order], step[order]
        facts = [(s, c) for _, _, s, c in lines]
        ledger.extract.add(self._batch(ledger, who, at, step, facts, names))
        ledger.seq += len(who)

    def _lines(self, node: int) -> Iterator[tuple[Numbers, Numbers, CourseStep, Course]]:
        for number, course in enumerate(ALL):
            mine = self.courses == number
            for step in course.steps:
                owner = {Side.SENDER: self.senders, Side.RECEIVER: self.receivers}.get(step.side)
                chosen = mine if owner is None else mine & (owner == node)
                if (step.side is Side.HUB) is not (node == -1):
                    continue
                index = np.flatnonzero(chosen)
                if len(index):
                    at = self.accepted[index] + step.after_ms + self.jitter[index]
                    yield index, at + (5 * DAY_MS if "o" in step.marks else 0), step, course

    def _batch(
        self,
        ledger: _Ledger,
        who: Numbers,
        at: Numbers,
        step: Numbers,
        facts: list[tuple[CourseStep, Course]],
        names: list[str],
    ) -> pa.RecordBatch:
        count = len(who)
        words = pa.array(names)

        def per_step(values: Sequence[object], kind: pa.DataType) -> pa.Array:
            return pa.array(values, kind).take(pa.array(step))

        digest = pa.array(self.digests[who]).cast(pa.string())
        other = pc.utf8_reverse(digest)
        shown = [1 if (s.side, s.event) in _DIGESTS else 0 for s, _ in facts]
        changed = [2 if "x" in s.marks else flag for (s, _), flag in zip(facts, shown, strict=True)]
        says = per_step(list(changed), pa.int8())
        empty = pa.repeat(pa.scalar(""), count)
        columns = {
            "node": pa.repeat(pa.scalar(ledger.name), count),
            "store": pa.repeat(pa.scalar("1.1"), count),
            "seq": pa.array(np.arange(ledger.seq, ledger.seq + count, dtype=np.int64)),
            "at": pa.array(at),
            "side": per_step([int(s.side) for s, _ in facts], pa.int8()),
            "event": per_step([int(s.event) for s, _ in facts], pa.int16()),
            "lk0": self._lk0(who, words),
            "source": words.take(pa.array(self.senders[who])),
            "target": words.take(pa.array(self.receivers[who])),
            "att": per_step([1 if s.event is Event.SENT else 0 for s, _ in facts], pa.int32()),
            "lk1": pc.if_else(
                per_step(["c" in s.marks for s, _ in facts], pa.bool_()),
                pc.binary_join_element_wise("1.1", pa.array(self.ids[who]).cast(pa.string()), "."), empty),
            "digest": pc.if_else(pc.equal(says, 1), digest, pc.if_else(pc.equal(says, 2), other, empty)),
            "size": pc.if_else(pc.greater(says, 0), pa.array(1000 + self.ids[who] % 4000), 0),
            "reason": per_step(["SEMQ-1101" if s.event is Event.REFUSED else "" for s, _ in facts], pa.string()),
            "save_fwd": per_step([c.save_fwd if s.event is Event.ACCEPTED else None for s, c in facts], pa.int8()),
            "ack2": per_step([c.save_fwd == 3 if s.event is Event.ACCEPTED else None for s, c in facts], pa.bool_()),
        }  # fmt: skip
        arrays = [columns.get(name, pa.nulls(count, ARROW_SCHEMA.field(name).type)) for name in ARROW_SCHEMA.names]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)

    def _lk0(self, who: Numbers, words: pa.Array) -> pa.Array:
        sender = words.take(pa.array(self.senders[who]))
        return pc.binary_join_element_wise(sender, "1.1", self._inc, pa.array(self.ids[who]).cast(pa.string()), ".")

    def truth(self, names: list[str], made: Truth) -> pa.Table:
        """Return the expected verdicts of these messages."""
        everything: Numbers = np.arange(len(self.ids))
        verdicts = pa.array([course.verdict for course in ALL]).take(pa.array(self.courses))
        for entry in verdicts.value_counts().to_pylist():
            made.verdicts[entry["values"]] = made.verdicts.get(entry["values"], 0) + entry["counts"]
        return pa.table([self._lk0(everything, pa.array(names)), verdicts], schema=_TRUTH)
