"""Failpoints end a process at the named step and phase only."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest

from semq.clock import SystemClock
from semq.errors import BadInput
from semq.store.postgres.owner import Owner
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Event, LedgerLine, Side
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Steps, Work
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Data, Envelope, Frame, Function, Packet, Primitive
from semq.umx_t.locator import LK0, LK1
from semq.umx_t.records import AckFlag, Answer, HubFlag, Inquiry, InquiryRole, Receipt
from tests.crash.armed import failpoints
from tests.crash.armed.failpoints import AFTER, AMID, BEFORE, Failpoint, NoSuchFailpoint, armed
from tests.store.jobs import own

NODE, PARTNER = Address(1, "a"), Address(1, "b")
NAME = LK0(1, "a", 1, 1, 7, 1)


def line(event: Event, side: Side = Side.SENDER) -> Callable[[Unit], None]:
    """Return a decision that adds a ledger line to its unit."""
    return lambda unit: unit.ledger.append(LedgerLine(0, side, event, str(NAME)))


class NotifiedWork(Work):
    """Work that calls ``decide``, and notes when it is notified of the result."""

    def __init__(self, decide: Callable[[Unit], None]) -> None:
        self._change = decide
        self.reported = asyncio.Event()
        self.error: Exception | None = None
        super().__init__(self._run, self._fail)

    def _run(self) -> Steps:
        unit = yield Needs()
        self._change(unit)
        yield COMMITTED
        self.reported.set()

    def _fail(self, error: Exception) -> None:
        self.error = error
        self.reported.set()


class RecordingLink:
    def __init__(self) -> None:
        self.sent: list[Frame] = []

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)


@pytest.fixture
async def store(database: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database, owner=Owner("1.10008", "host", "one"), clock=SystemClock(), lost=lambda error: None)
    await store.start()
    yield store
    await store.stop()


def lines_in(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM semq_ledger").fetchone()
        assert row is not None
        return int(row[0])


# ------------------------------------------------------------ the environment


def test_without_the_variable_no_failpoint_is_armed() -> None:
    assert armed({}) is None
    assert armed({failpoints.VARIABLE: ""}) is None


def test_every_step_can_be_armed() -> None:
    points = failpoints.all_failpoints()
    assert len(set(points)) == len(points)
    for step, phase in points:
        point = armed({failpoints.VARIABLE: f"{step}:{phase}:2"})
        assert point is not None
        assert (point.step, point.phase, point.count) == (step, phase, 2)


@pytest.mark.parametrize(
    "text",
    [
        "S1",
        "S1:after",
        "S1:after:0",
        "S1:after:x",
        "S1:later:1",
        "X9:after:1",
        "MSG:amid:1",
        ":::",
        "S1:after:-1",
        "S1:after:1:end",
        "S1:after:1:stop:",
    ],
)
def test_an_unknown_failpoint_is_refused(text: str) -> None:
    with pytest.raises(NoSuchFailpoint):
        armed({failpoints.VARIABLE: text})


def test_a_process_is_killed_or_suspended() -> None:
    killed, suspended = (armed({failpoints.VARIABLE: f"S1:after:1{deed}"}) for deed in ("", ":stop"))
    assert killed is not None
    assert suspended is not None
    assert (killed.strike, suspended.strike) == (failpoints.end_now, failpoints.suspend_now)


def test_the_end_of_the_process_runs_no_handler() -> None:
    imports = "import sys\nfrom tests.crash.armed.failpoints import end_now\n"
    code = f"{imports}try:\n end_now()\nfinally:\n print('still here')"
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert completed.returncode == -signal.SIGKILL
    assert completed.stdout == b""


# ------------------------------------------------------------ commits


@pytest.mark.parametrize(("phase", "durable"), [(BEFORE, {0}), (AMID, {0, 1}), (AFTER, {1})])
async def test_a_commit_has_three_phases(store: PostgresStore, database: str, phase: str, durable: set[int]) -> None:
    job = NotifiedWork(line(Event.ACCEPTED))
    strikes: list[tuple[bool, int]] = []
    point = Failpoint("S1", phase, 1, lambda: strikes.append((job.reported.is_set(), lines_in(database))))
    point.watch_store(store)
    store.post(job)
    await job.reported.wait()
    assert job.error is None
    ((was_reported, lines),) = strikes
    assert not was_reported
    assert lines in durable


async def test_the_named_step_is_counted_and_no_other(store: PostgresStore) -> None:
    strikes: list[str] = []
    point = Failpoint("S5", AFTER, 2, lambda: strikes.append("now"))
    point.watch_store(store)
    for event in (Event.ACCEPTED, Event.DELIVERED, Event.STORED):
        await commit(store, line(event))
    await commit(store, line(Event.REJECTED, Side.RECEIVER))
    assert strikes == []
    await commit(store, line(Event.REJECTED))
    assert strikes == ["now"]
    await commit(store, line(Event.DELIVERED))
    assert strikes == ["now"]


async def test_deletions_are_distinguished_by_their_table(store: PostgresStore) -> None:
    strikes: list[str] = []
    for step in ("S13", "R9", "MSG"):
        Failpoint(step, BEFORE, 1, lambda step=step: strikes.append(step)).watch_store(store)  # type: ignore[misc]
    await commit(store, line(Event.ACCEPTED))
    assert strikes == []
    # Postgres refuses both units afterwards, because the rows do not exist.
    await post(store, lambda unit: unit.deleted_pending.add(5))
    assert strikes == ["R9"]
    await post(store, lambda unit: unit.delete_outbound(own(5)))
    assert strikes == ["R9", "S13"]


async def test_failed_work_is_notified(store: PostgresStore) -> None:
    def refuse(unit: Unit) -> None:
        raise BadInput

    Failpoint("S1", AFTER, 1, lambda: None).watch_store(store)
    assert isinstance((await post(store, refuse)).error, BadInput)


@pytest.mark.parametrize(("phase", "boots"), [(BEFORE, 1), (AFTER, 2)])
async def test_the_opening_of_the_store_is_a_step(store: PostgresStore, database: str, phase: str, boots: int) -> None:
    boots_seen: list[int] = []

    def note_boots() -> None:
        with psycopg.connect(database) as connection:
            row = connection.execute("SELECT boot FROM semq_meta").fetchone()
            assert row is not None
            boots_seen.append(row[0])

    Failpoint(failpoints.BOOT, phase, 1, note_boots).watch_store(store)
    await store.start()
    assert boots_seen == [boots]


@pytest.mark.parametrize("is_in_thread", [False, True])
@pytest.mark.parametrize(("phase", "rows"), [(BEFORE, 4), (AFTER, 5)])
async def test_an_exchange_with_the_database_is_a_step_after_each_opening(
    database: str, monkeypatch: pytest.MonkeyPatch, phase: str, rows: int, is_in_thread: bool
) -> None:
    """Exchanges on a connection of the event loop and on one of a thread alternate; the third is the step."""
    for connection_type in (psycopg.AsyncConnection, psycopg.Connection):  # restored after the test
        monkeypatch.setattr(connection_type, "wait", connection_type.wait)
    rows_seen: list[int] = []

    def note_rows() -> None:
        with psycopg.connect(database) as third:
            rows_seen.append(len(third.execute("SELECT FROM numbers").fetchall()))

    point = Failpoint(failpoints.STATEMENT, phase, 3, note_rows)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as first:
        await first.execute("CREATE TABLE numbers (number int)")
        with psycopg.connect(database, autocommit=True) as second:
            point.watch_statements()
            for count in (2, 4):
                point.begin_opening()
                for number in range(count):
                    if bool(number % 2) is is_in_thread:
                        await first.execute("INSERT INTO numbers VALUES (1)")
                    else:
                        await asyncio.to_thread(second.execute, b"INSERT INTO numbers VALUES (1)")
    assert rows_seen == [rows]


async def post(store: PostgresStore, decide: Callable[[Unit], None]) -> NotifiedWork:
    job = NotifiedWork(decide)
    store.post(job)
    await job.reported.wait()
    return job


async def commit(store: PostgresStore, decide: Callable[[Unit], None]) -> None:
    assert (await post(store, decide)).error is None


# ------------------------------------------------------------ frames


def message(lk1: LK1 | None = None) -> Data:
    return Data(Envelope(source=NODE, target=PARTNER, lk0=NAME, attributes=Attributes(), sid=0, lk1=lk1), b"x")


def receipt(primitive: Primitive, **facts: object) -> Packet:
    record = Receipt(ident=str(NAME), **facts)  # type: ignore[arg-type]
    return Packet(NODE, PARTNER, Function.RECEIPTS, primitive, [record])


# step | example of its frame
FRAMES: dict[str, Frame] = {
    "MSG": message(),
    "MSG-stored": message(LK1(1, 1, 4)),
    "Ack-Fwd": receipt(Primitive.INDICATION, flag=HubFlag.FORWARDED),
    "Ack-Save": receipt(Primitive.INDICATION, flag=HubFlag.STORED),
    "Refusal": receipt(Primitive.INDICATION, flag=HubFlag.REFUSED),
    "Ack": receipt(Primitive.INDICATION, ack_flag=AckFlag.TRANSPORT),
    "Ack2": receipt(Primitive.INDICATION, ack_flag=AckFlag.END_TO_END),
    "ReAck": receipt(Primitive.RESPONSE, ack_flag=AckFlag.TRANSPORT),
    "ReAck2": receipt(Primitive.RESPONSE, ack_flag=AckFlag.END_TO_END),
    "Inquiry": Packet(NODE, PARTNER, Function.INQUIRIES, Primitive.REQUEST, [Inquiry(role=InquiryRole.S)]),
    "Answer": Packet(NODE, PARTNER, Function.INQUIRIES, Primitive.CONFIRMATION, [Inquiry(answer=Answer.NOT)]),
}


def test_every_step_that_sends_has_an_example() -> None:
    assert FRAMES.keys() == failpoints.SENDS.keys()


@pytest.mark.parametrize("step", FRAMES)
def test_only_the_named_frame_counts(step: str) -> None:
    matching = [name for name, frame in FRAMES.items() if failpoints.SENDS[step](frame)]
    assert matching == [step]


@pytest.mark.parametrize(("phase", "sent"), [(BEFORE, 0), (AFTER, 1)])
async def test_a_frame_has_two_phases(phase: str, sent: int) -> None:
    class Engine:
        """The part of an engine that a failpoint watches."""

        def link_up(self, link: RecordingLink) -> None:
            self.link = link

    session, engine, was_struck = RecordingLink(), Engine(), asyncio.Event()
    frames_sent: list[int] = []

    def strike() -> None:
        frames_sent.append(len(session.sent))
        was_struck.set()

    Failpoint("Ack2", phase, 1, strike).watch_engine(engine)
    engine.link_up(session)
    assert engine.link is session
    engine.link.send(FRAMES["ReAck2"])
    session.sent.clear()
    engine.link.send(FRAMES["Ack2"])
    await was_struck.wait()
    assert frames_sent == [sent]
    assert session.sent == [FRAMES["Ack2"]]
