"""Rows that wait for an application are examined at a rate that does not grow with the number of rows."""

from msgspec.structs import replace

from semq.store.unit import Query, Unit
from tests.engine.time.test_inquiry import COUNT, PACED, PER_S
from tests.flows.trio import Trio


def counted_examinations(trio: Trio) -> list[int]:
    """Return a list to which each later examination adds its number of rows."""
    examined: list[int] = []
    sweep = trio.b.engine.owed_acks.sweep
    ask = sweep._ask

    def counted(unit: Unit, query: Query) -> object:
        asked = ask(unit, query)
        examined.append(asked.rows)
        return asked

    sweep._ask = counted  # type: ignore[assignment]
    return examined


def without_application() -> Trio:
    """Return a trio in which ``COUNT`` acknowledged documents wait at B for an application."""
    trio = Trio(replace(PACED, inquiry_s_max=15))
    trio.b.app.places = 0
    for number in range(COUNT):
        trio.a.send(b"%d" % number)
    trio.settle()
    trio.later(40)
    assert not any(row.owes for row in trio.b.store.tables.pending.values())
    return trio


def test_documents_that_wait_for_an_application_have_the_slower_pace() -> None:
    trio = without_application()
    examined = counted_examinations(trio)
    trio.later(300)
    assert COUNT < sum(examined) <= PER_S * 300 + PACED.ask_rows
    examined.clear()
    trio.cut(trio.b)
    trio.connect(trio.b)
    trio.later(30)
    assert sum(examined) <= PER_S * 30 + PACED.ask_rows


def test_inquiries_about_unconfirmed_acknowledgements_do_not_wait_for_documents_without_an_application() -> None:
    trio = without_application()
    trio.lose = lambda wire, frame: wire is trio.b.up  # the receipt is lost
    trio.a.send(b"owed")
    trio.settle()
    trio.lose = lambda wire, frame: False
    trio.later(PACED.inquiry_s * 2)
    assert not any(row.owes for row in trio.b.store.tables.pending.values())
