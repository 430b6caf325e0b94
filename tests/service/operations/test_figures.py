"""Documents over time at nodes, and the sums of several stores."""

from typing import Any

import msgspec
from sqlalchemy import Connection

from semq.service.operations.figures import (
    MOVES,
    LatencyFigures,
    TrafficFigures,
    TrafficPoint,
    fill,
    latency_of,
    length_now,
    lengths,
    merged,
)
from semq.store.figures import BOUNDS_MS, NO_LATENCY, count_lines
from semq.store.rows import Event, Side
from semq.store.views.census import CensusGroup
from semq.store.views.ended import ENDS
from semq.store.views.figures import Counted
from tests.service.inprocess import LOCAL_CONFIG, InProcess, ask, linked
from tests.store.test_figures import NOON, connection, write
from tests.waiting import until

__all__ = ["connection"]


async def traffic(client: Any, **arguments: Any) -> TrafficFigures:
    answer = await ask(client, "figures.traffic", arguments)
    assert answer["ok"], answer
    return msgspec.convert(answer["result"], TrafficFigures, strict=False)


async def until_counted(client: Any, documents: dict[str, int], backlog: dict[str, int]) -> TrafficFigures:
    """Wait until a node has counted these documents; return its figures."""
    found: list[TrafficFigures] = []

    async def is_counted() -> bool:
        found[:] = [await traffic(client)]
        return (found[0].documents, found[0].backlog) == (documents, backlog)

    await until(is_counted)
    return found[0]


async def test_sender_hub_and_receiver_count_documents_latency_and_backlog_also_after_a_restart(
    inprocess: InProcess,
) -> None:
    hub = await inprocess.hub()
    settings = inprocess.settings("10008", LOCAL_CONFIG.format(name="10008", hub=hub.port))
    sender = await inprocess.start_node(settings)
    receiver = await inprocess.local("56001", hub.port)
    await linked(sender, receiver)
    client = await inprocess.client(sender)
    for target in ("56001", "56001", "10008"):
        await ask(client, "msg.submit", {"target": target, "app_key": "trade/order//1", "body_base64": "eA=="})

    figures = await until_counted(client, {"accepted": 3, "delivered": 3, "received": 1}, {"sender": 0, "inbox": 1})
    assert figures.points[-1].backlog == {"sender": 0, "inbox": 1}
    for period, count in (("hour", 60), ("day", 24), ("week", 168)):
        figures = await traffic(client, period=period)
        assert len(figures.points) == count
        assert sum(figures.latency["delivered"].buckets.values()) == 3
        assert sum(point.documents.get("accepted", 0) for point in figures.points) == 3
        assert all(point.backlog == {"sender": 0, "inbox": 0} for point in figures.points[:-2])
    assert (await traffic(client, partner="56001")).documents == {"accepted": 2, "delivered": 2}
    await until_counted(await inprocess.client(receiver), {"received": 2}, {"sender": 0, "inbox": 2})
    await until_counted(await inprocess.client(hub), {"forwarded": 2}, {"hub": 0})
    await sender.stop()
    again = await inprocess.client(await inprocess.start_node(settings))
    assert (await traffic(again)).documents == {"accepted": 3, "delivered": 3, "received": 1}


def test_every_end_of_an_accepted_document_takes_it_out_of_the_backlog() -> None:
    refused_before_acceptance = Event.REFUSED
    ends = {event for (_, event), step in MOVES["sender"].items() if step < 0}
    assert ends == set(ENDS[Side.SENDER]) - {refused_before_acceptance}


def test_the_backlog_is_that_of_the_partner_without_pieces() -> None:
    sent: CensusGroup = {"side": "outbound", "source": "", "outcome": None}
    taken: CensusGroup = {"side": "inbound", "target": "", "outcome": None, "app_status": "NEW"}
    groups: list[CensusGroup] = [
        sent | {"target": "1.56001", "rows": 1, "piece": False},
        sent | {"target": "1.20002", "rows": 2, "piece": False},
        sent | {"target": "1.56001", "rows": 4, "piece": True},
        taken | {"source": "1.56001", "rows": 8, "piece": False},
        taken | {"source": "1.20002", "rows": 16, "piece": False},
        taken | {"source": "1.20002", "rows": 32, "piece": False, "app_status": "PARKED"},
        taken | {"source": "1.20002", "rows": 64, "piece": False, "app_status": "DONE"},
    ]
    assert lengths(groups, None) == {"sender": 3, "inbox": 56}
    assert lengths(groups, "1.56001") == {"sender": 1, "inbox": 8}


def test_the_past_of_a_backlog_and_latencies_are_counted_from_the_lines() -> None:
    points = [TrafficPoint(at) for at in (0, 60_000, 120_000)]
    rows = [
        Counted(60_000, Side.SENDER, Event.ACCEPTED, NO_LATENCY, 5),
        Counted(120_000, Side.SENDER, Event.DELIVERED, 0, 2),
        Counted(120_000, Side.SENDER, Event.DELIVERED, len(BOUNDS_MS), 1),  # took longer than a day
        Counted(120_000, Side.SENDER, Event.CANCELLED, NO_LATENCY, 1),
    ]
    fill(points, rows, {"sender": 1})
    assert [point.backlog["sender"] for point in points] == [0, 5, 1]
    assert points[2].latency == {"delivered": LatencyFigures({BOUNDS_MS[0]: 2, -1: 1}, BOUNDS_MS[0], None)}


def test_a_document_that_was_parked_and_processed_later_leaves_the_backlog_once() -> None:
    points = [TrafficPoint(at) for at in (0, 60_000, 120_000, 180_000)]
    events = {60_000: Event.RECEIVED, 120_000: Event.PARKED, 180_000: Event.DONE}
    fill(points, [Counted(at, Side.RECEIVER, event, NO_LATENCY, 1) for at, event in events.items()], {"inbox": 0})
    assert [point.backlog["inbox"] for point in points] == [0, 1, 1, 0]


def test_a_queue_that_was_counted_minutes_ago_has_the_length_of_now(connection: Connection) -> None:
    for number, event in enumerate((Event.ACCEPTED, Event.ACCEPTED, Event.ACCEPTED, Event.DELIVERED, Event.DELIVERED)):
        write(connection, number, event, 60 * number)  # from noon on, one each minute
    write(connection, 9, Event.RECEIVED, 300, Side.RECEIVER)
    count_lines(connection)
    noon_ms = round(NOON.timestamp() * 1000)
    counted, names = {"sender": 100, "inbox": 0}, ("sender", "inbox")
    assert length_now(connection, counted, noon_ms, None, names) == {"sender": 100, "inbox": 1}
    assert length_now(connection, counted, noon_ms + 150_000, None, names) == {"sender": 98, "inbox": 1}
    assert length_now(connection, counted, noon_ms + 400_000, None, names) == counted
    assert length_now(connection, {}, 0, None, names) == dict.fromkeys(names, 0)  # no census yet


def test_quantiles_are_upper_bounds_and_none_above_the_last_one() -> None:
    latency = latency_of({10: 50, 200: 49, -1: 1})
    assert (latency.median_ms, latency.p99_ms) == (10, 200)
    assert latency_of({200: 1, -1: 1}) == LatencyFigures({200: 1, -1: 1}, 200, None)
    assert latency_of({BOUNDS_MS[-1]: 1}).p99_ms == 86_400_000


def test_the_figures_of_several_stores_are_added_by_time_and_bucket() -> None:
    one = TrafficPoint(60_000, {"stored": 1}, {"hub": 4}, {"released": latency_of({10: 98})})
    other = TrafficPoint(60_000, {"stored": 2}, {"hub": 5}, {"released": latency_of({500: 2})})
    answers = [
        TrafficFigures("hour", None, until, 60_000, point.documents, point.latency, point.backlog, [point])
        for until, point in ((8, one), (7, other))
    ]
    figures = merged(answers)
    assert (figures.counted_until, figures.documents, figures.backlog) == (7, {"stored": 3}, {"hub": 9})
    assert (
        figures.latency["released"]
        == figures.points[0].latency["released"]
        == LatencyFigures({10: 98, 500: 2}, 10, 500)
    )
    assert figures.points[0].backlog == {"hub": 9}
