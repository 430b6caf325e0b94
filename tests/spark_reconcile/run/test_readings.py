"""Sums that the driver reads from the tables of a run, whose rows are spread over several parts."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semq.store.rows import Event, Side
from spark_reconcile.run import readings
from spark_reconcile.storage import Place

HUB = "2.hub"


def table(folder: Path, rows: list[dict[str, Any]]) -> Place:
    """Write rows alternately into the two parts of a table."""
    folder.mkdir(exist_ok=True)
    schema = pa.Table.from_pylist(rows).schema
    for part in range(2):
        pq.write_table(pa.Table.from_pylist(rows[part::2], schema), folder / f"part-0000{part}.parquet")
    return Place.at(folder)


# ---------------------------------------------------------------- the survey


def counted(node: str, side: Side, event: Event | None, target: str | None, lines: int, **fields: Any) -> Any:
    return {
        "node": node, "store": "1.1", "side": int(side), "event": None if event is None else int(event),
        "target": target, "copies_in": "", "on_date": True, "lines": lines, "outside": 0, "relayed": True, **fields,
    }  # fmt: skip


def test_the_survey_names_all_nodes_and_counts_the_lines_of_the_date(tmp_path: Path) -> None:
    rows = [
        counted("1.a", Side.SENDER, Event.SENT, "1.b", 3, outside=1),
        counted("1.a", Side.SENDER, Event.SENT, "1.c", 4),
        counted("1.a", Side.SENDER, Event.SENT, "1.d", 5, on_date=False),
        counted("1.b", Side.RECEIVER, None, None, 1),
        counted("1.b", Side.RECEIVER, None, "", 1),
    ]
    found = readings.survey(table(tmp_path / "survey", rows), {HUB})
    assert found.nodes == ["1.a", "1.b", "1.c", "1.d"]
    sent, unreadable = int(Event.SENT), None
    assert found.lines == [
        ("1.a", "1.1", 1, sent, 7, 1),
        ("1.b", "1.1", 3, unreadable, 2, 0),
    ]


def test_a_store_of_the_hub_exists_if_two_nodes_name_copies_there(tmp_path: Path) -> None:
    rows = [
        counted(node, Side.SENDER, Event.STORED, "1.b", 1, copies_in=store)
        for node, store in (("1.a", "2.1"), ("1.b", "2.1"), ("1.a", "3.1"), ("1.a", "3.1"))
    ]
    assert readings.survey(table(tmp_path / "survey", rows), {HUB}).stores == {"2.1"}


@pytest.mark.parametrize(
    ("of_hub", "unserved"),
    [
        ([(Event.FORWARDED, "1.b")], {"1.y"}),
        ([(Event.FORWARDED, "1.b"), (Event.SENT, "1.y")], set()),
        ([(Event.FORWARDED, "1.b"), (Event.ANSWERED, "1.y")], {"1.y"}),  # a note
        ([(Event.FORWARDED, "1.b"), (Event.SENT, None)], set()),  # a line that may be about any node
        ([(Event.FORWARDED, "1.b"), (Event.SENT, "")], set()),
        ([], set()),
    ],
)
def test_a_node_with_many_records_and_without_lines_of_the_hub_is_unserved(
    tmp_path: Path, of_hub: list[tuple[Event, str | None]], unserved: set[str]
) -> None:
    rows = [
        counted("1.x", Side.RECEIVER, Event.RECEIVED, "1.x", readings.UNSERVED_MIN - 1),
        counted("1.y", Side.RECEIVER, Event.RECEIVED, "1.y", 5),
        counted("1.y", Side.RECEIVER, Event.RECEIVED, "1.y", readings.UNSERVED_MIN - 5, store="2.1"),
        counted("1.x", Side.RECEIVER, Event.RECEIVED, "1.x", 100, relayed=False),
        counted(HUB, Side.RECEIVER, Event.RECEIVED, HUB, 100),
        *(counted(HUB, Side.HUB, event, target, 1) for event, target in of_hub),
    ]
    assert readings.survey(table(tmp_path / "survey", rows), {HUB}).unserved == unserved


# ---------------------------------------------------------------- counts


def cell(sender: str, receiver: str, messages: int, oldest_at: int | None = None, **fields: Any) -> Any:
    return {
        "scope": "date", "sender": sender, "receiver": receiver, "verdict": "MATCHED", "finding": "matched",
        "latency": 0, "age": None, "messages": messages, "oldest_at": oldest_at, "bytes": 10 * messages, "resends": 1,
        "turned": 0, "pieces": 0, **fields,
    }  # fmt: skip


def test_the_profile_adds_up_the_pairs(tmp_path: Path) -> None:
    rows = [
        cell("1.a", "1.b", 1, 500),
        cell("1.a", "1.c", 2, 400),
        cell("1.b", "1.c", 4, None),
        cell("1.b", "1.a", 8, 300, age=2),
    ]
    found = sorted(readings.profile(table(tmp_path / "cells", rows)), key=lambda row: row["messages"])
    assert [(row["age"], row["messages"], row["oldest_at"], row["bytes"], row["resends"]) for row in found] == [
        (None, 7, 400, 70, 3),
        (2, 8, 300, 80, 1),
    ]
    assert readings.profile(Place.at(tmp_path / "none")) == []


def test_only_the_rows_of_the_named_pairs_are_returned(tmp_path: Path) -> None:
    rows = [cell("1.a", "1.b", 1, 5), cell("1.a", "1.c", 2), cell("1.b", "1.a", 3, scope="carried")]
    cells = table(tmp_path / "cells", rows)
    assert [row["messages"] for row in readings.drill(cells, ["1.a>1.b", "1.b>1.a", "1.x>1.y"])] == [1, 3]
    assert readings.drill(cells, []) == []
    assert readings.of_pairs(cells, ["1.a>1.b", "1.b>1.a"]) == [
        ("1.a>1.b", "MATCHED", "date", 1, 5),
        ("1.b>1.a", "MATCHED", "carried", 3, None),
    ]


# ---------------------------------------------------------------- stories


def test_a_story_has_the_first_lines_of_a_message_in_the_order_of_time(tmp_path: Path) -> None:
    def line(lk0: str, at: int, seq: int | None) -> dict[str, Any]:
        return {
            "lk0": lk0, "at": at, "outside": False, "side": 1, "event": 1, "node": "1.a", "store": "1.1", "seq": seq,
            "att": 0, "lk1": "", "digest": "", "reason": "", "app_type": None,
        }  # fmt: skip

    count = 30 * readings.STORY_LINES
    lines = [line("long", count - number, number) for number in range(count)]
    lines += [line("short", 5, 2), line("short", 5, None), line("short", 5, 1), line("other", 1, 1)]
    found = readings.stories(table(tmp_path / "lines", lines), ["short", "long", "absent"])
    assert found.keys() == {"short", "long"}
    assert [row["seq"] for row in found["short"]] == [None, 1, 2]
    assert [row["at"] for row in found["long"]] == list(range(1, readings.STORY_LINES + 2))
    assert found["short"][0].keys() == {
        "at", "outside", "side", "event", "node", "store", "seq", "att", "lk1", "digest", "reason"
    }  # fmt: skip
    assert readings.stories(Place.at(tmp_path / "none"), []) == {}
