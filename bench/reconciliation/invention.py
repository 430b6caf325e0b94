"""Generated ledgers with known defects, of any size.

Each message follows one of the courses below, with the verdict that a run must give. Columns are made for one slice
of messages at a time, and extracts are written for one group of institutions at a time, so memory is bounded.
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
# Incarnations are this prefix and the date, so that messages of different dates have different names.
INCARNATION_PREFIX = "3f2a"
SLICE = 50_000  # messages per slice
# Least number of institutions that exchange messages with each other and with the one that sends half of all. Only the
# extracts of one such group are written at a time, so that memory and open files do not grow with the institutions.
GROUP = 32
# In the first minute of the date no message is accepted. In the last two hours only late messages are accepted, because
# the last lines of other courses would lie outside the date.
_TAIL_MS = 7_200_000
_LEAD_MS = 60_000
Numbers = npt.NDArray[np.int64]

# Parts of courses: lines as side:EVENT@milliseconds after the acceptance. Letters after the time: c, with the locator
# of a stored copy; x, with other bytes; o, outside the dates of the extract.
COURSE_PARTS = {
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
# Verdict, share of all messages, class, parts and single lines. Share 0: all messages without another course; late: a
# small share, accepted in the last minutes of the date.
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
# Lines with digest and size.
_WITH_DIGEST = {(Side.SENDER, Event.ACCEPTED), (Side.RECEIVER, Event.RECEIVED)}
_SIDES = {"S": Side.SENDER, "H": Side.HUB, "R": Side.RECEIVER}


class CourseStep(NamedTuple):
    """One line of a course."""

    side: Side
    event: Event
    after_ms: int
    marks: str  #: letters of COURSE_PARTS


class Course(NamedTuple):
    """A course of messages, and the verdict."""

    verdict: str
    share: float
    is_late: bool  #: accepted in the last minutes of the date
    save_fwd: int
    steps: tuple[CourseStep, ...]


def _read(text: str) -> list[Course]:
    courses = []
    for row in text.strip().splitlines():
        verdict, share, save_fwd, *parts = row.split()
        steps = " ".join(COURSE_PARTS.get(part, part) for part in parts).split()
        is_late = share == "late"
        number = 0.0005 if is_late else float(share)
        courses.append(Course(verdict, number, is_late, int(save_fwd), tuple(map(_step, steps))))
    return courses


def _step(text: str) -> CourseStep:
    side, _, event_and_time = text.partition(":")
    event, _, time_and_marks = event_and_time.partition("@")
    after_ms = time_and_marks.rstrip("xoc")
    return CourseStep(_SIDES[side], Event[event], int(after_ms), time_and_marks[len(after_ms) :])


ALL_COURSES = _read(COURSES)


@dataclass(slots=True)
class Truth:
    """Numbers of messages and lines, and of messages by true verdict."""

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
    uneven: bool = True,
) -> Truth:
    """Write the extracts of ``nodes`` institutions and the hub for one date, and the true verdicts below ``truth``.

    ``defects`` multiplies the shares of all courses but the first two. ``uneven``: one institution sends more than half
    of all messages.
    """
    dice = np.random.default_rng((seed, day.toordinal()))
    window = calendar.window(day)
    totals = Truth(messages)
    truth.make()

    def ledger(stack: ExitStack, name: str) -> _Ledger:
        origin = LedgerOrigin(name, role="platform" if name == HUB else "local")
        return _Ledger(name, stack.enter_context(Extract(root, origin, day, calendar, clock)))

    names = [f"1.{10001 + number}" for number in range(nodes)]
    with ExitStack() as stack:
        hub = ledger(stack, HUB)
        everywhere = [ledger(stack, name) for name in names[:1] if uneven]
        stream = stack.enter_context((truth / "truth.parquet").writer())
        truth_writer = stack.enter_context(pq.ParquetWriter(stream, _TRUTH, compression="zstd"))
        others = names[len(everywhere) :]
        groups = max(len(others) // GROUP, 1)
        for group in range(groups):
            done, end = (messages * number // groups for number in (group, group + 1))
            own = others[len(others) * group // groups : len(others) * (group + 1) // groups]
            with ExitStack() as group_stack:
                members = [*everywhere, *(ledger(group_stack, name) for name in own)]
                group_names = [member.name for member in members]
                for first in range(done, end, SLICE):
                    batch = _Slice(first, min(SLICE, end - first), (done, end), len(members), dice, defects, uneven,
                                   window.start, day)  # fmt: skip
                    for member, number in zip((*members, hub), (*range(len(members)), -1), strict=True):
                        batch.write(member, number, group_names)
                    truth_writer.write_table(batch.truth(group_names, totals))
                totals.rows += sum(member.extract.finish().rows for member in members[len(everywhere) :])
        totals.rows += sum(member.extract.finish().rows for member in (*everywhere, hub))
    (truth / "truth.json").write(canonical({"messages": messages, "rows": totals.rows, "verdicts": totals.verdicts}))
    return totals


_TRUTH = pa.schema([("lk0", pa.string()), ("verdict", pa.string())])


class _Ledger:
    """One node's ledger and the number of its next line."""

    def __init__(self, name: str, extract: Extract) -> None:
        self.name, self.extract, self.seq = name, extract, 1


class _Slice:
    """A slice of messages: sender, receiver and course of each.

    ``first``: number of messages in earlier slices. ``count``: messages of this slice. ``group``: first and last number
    of the messages of its group of institutions, which are spread over the date. ``begin``: start of the date.
    """

    def __init__(
        self,
        first: int,
        count: int,
        group: tuple[int, int],
        nodes: int,
        dice: np.random.Generator,
        defects: float,
        uneven: bool,
        begin: int,
        day: date,
    ) -> None:
        self.ids: Numbers = np.arange(first + 1, first + count + 1, dtype=np.int64)
        self.senders: Numbers = dice.integers(0, nodes, count)
        if uneven:
            self.senders = np.where(dice.random(count) < 0.5, 0, self.senders)
        self.receivers: Numbers = (self.senders + dice.integers(1, max(nodes, 2), count)) % nodes
        shares = np.array([course.share * (1 if index == 1 else defects) for index, course in enumerate(ALL_COURSES)])
        shares[0] = max(1 - shares[1:].sum(), 0)
        self.courses: Numbers = dice.choice(len(ALL_COURSES), count, p=shares / shares.sum())
        period_ms = DAY_MS - _TAIL_MS - _LEAD_MS
        done = (self.ids - 1 - group[0]) * period_ms // (group[1] - group[0])
        self.accepted: Numbers = begin + _LEAD_MS + done + dice.integers(0, 1000, count)
        late = np.array([course.is_late for course in ALL_COURSES])[self.courses]
        self.accepted = np.where(late, begin + DAY_MS - dice.integers(60_000, 600_000, count), self.accepted)
        self.jitter: Numbers = dice.integers(0, 10, count)
        self.digests = np.frombuffer(dice.bytes(32 * count).hex().encode(), dtype="S64")
        self._incarnation = f"{INCARNATION_PREFIX}{day:%Y%m%d}"

    def write(self, ledger: _Ledger, node: int, names: list[str]) -> None:
        """Write the lines of one node by time. ``node``: index in ``names``; -1 is the hub."""
        groups = list(self._lines(node))
        if not groups:
            return
        message = np.concatenate([indexes for indexes, _, _, _ in groups])
        at = np.concatenate([times for _, times, _, _ in groups])
        step = np.concatenate([np.full(len(indexes), number) for number, (indexes, _, _, _) in enumerate(groups)])
        order = np.argsort(at, kind="stable")
        message, at, step = message[order], at[order], step[order]
        steps = [(course_step, course) for _, _, course_step, course in groups]
        ledger.extract.add(self._batch(ledger, message, at, step, steps, names))
        ledger.seq += len(message)

    def _lines(self, node: int) -> Iterator[tuple[Numbers, Numbers, CourseStep, Course]]:
        """Yield indexes of messages, times of lines, step and course, for each step that the node writes."""
        for number, course in enumerate(ALL_COURSES):
            on_course = self.courses == number
            for step in course.steps:
                if (step.side is Side.HUB) is not (node == -1):
                    continue
                writer = {Side.SENDER: self.senders, Side.RECEIVER: self.receivers}.get(step.side)
                indexes = np.flatnonzero(on_course if writer is None else on_course & (writer == node))
                if len(indexes):
                    at = self.accepted[indexes] + step.after_ms + self.jitter[indexes]
                    yield indexes, at + (5 * DAY_MS if "o" in step.marks else 0), step, course

    def _batch(
        self,
        ledger: _Ledger,
        message: Numbers,
        at: Numbers,
        step: Numbers,
        steps: list[tuple[CourseStep, Course]],
        names: list[str],
    ) -> pa.RecordBatch:
        """``message``, ``at``, ``step``: for each line, index of the message, time, and index in ``steps``."""
        count = len(message)
        nodes = pa.array(names)

        def per_step(values: Sequence[object], kind: pa.DataType) -> pa.Array:
            return pa.array(values, kind).take(pa.array(step))

        digest = pa.array(self.digests[message]).cast(pa.string())
        has_digest = per_step([(s.side, s.event) in _WITH_DIGEST for s, _ in steps], pa.bool_())
        has_other_bytes = per_step(["x" in s.marks for s, _ in steps], pa.bool_())
        empty = pa.repeat(pa.scalar(""), count)
        columns = {
            "node": pa.repeat(pa.scalar(ledger.name), count),
            "store": pa.repeat(pa.scalar("1.1"), count),
            "seq": pa.array(np.arange(ledger.seq, ledger.seq + count, dtype=np.int64)),
            "at": pa.array(at),
            "side": per_step([int(s.side) for s, _ in steps], pa.int8()),
            "event": per_step([int(s.event) for s, _ in steps], pa.int16()),
            "lk0": self._lk0(message, nodes),
            "source": nodes.take(pa.array(self.senders[message])),
            "target": nodes.take(pa.array(self.receivers[message])),
            "att": per_step([1 if s.event is Event.SENT else 0 for s, _ in steps], pa.int32()),
            "lk1": pc.if_else(
                per_step(["c" in s.marks for s, _ in steps], pa.bool_()),
                pc.binary_join_element_wise("1.1", pa.array(self.ids[message]).cast(pa.string()), "."), empty),
            "digest": pc.if_else(
                has_other_bytes, pc.utf8_reverse(digest), pc.if_else(has_digest, digest, empty)),
            "size": pc.if_else(
                pc.or_(has_digest, has_other_bytes), pa.array(1000 + self.ids[message] % 4000), 0),
            "reason": per_step(["SEMQ-1101" if s.event is Event.REFUSED else "" for s, _ in steps], pa.string()),
            "save_fwd": per_step([c.save_fwd if s.event is Event.ACCEPTED else None for s, c in steps], pa.int8()),
            "ack2": per_step([c.save_fwd == 3 if s.event is Event.ACCEPTED else None for s, c in steps], pa.bool_()),
        }  # fmt: skip
        arrays = [columns.get(name, pa.nulls(count, ARROW_SCHEMA.field(name).type)) for name in ARROW_SCHEMA.names]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)

    def _lk0(self, message: Numbers, nodes: pa.Array) -> pa.Array:
        sender, object_id = nodes.take(pa.array(self.senders[message])), pa.array(self.ids[message])
        return pc.binary_join_element_wise(sender, "1.1", self._incarnation, object_id.cast(pa.string()), ".")

    def truth(self, names: list[str], totals: Truth) -> pa.Table:
        messages: Numbers = np.arange(len(self.ids))
        verdicts = pa.array([course.verdict for course in ALL_COURSES]).take(pa.array(self.courses))
        for entry in verdicts.value_counts().to_pylist():
            totals.verdicts[entry["values"]] = totals.verdicts.get(entry["values"], 0) + entry["counts"]
        return pa.table([self._lk0(messages, pa.array(names)), verdicts], schema=_TRUTH)
