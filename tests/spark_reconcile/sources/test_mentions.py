"""Mentions: ledgers that were not delivered, but are named in the lines of a date."""

from datetime import timedelta

import pytest

from spark_reconcile.sources.evidence import collect_evidence
from spark_reconcile.sources.mentions import absent_sources
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HOUR, HUB, STORE_COURSE, Office, OfficeMessage

SENT = "S:ACCEPTED@0 S:SENT@3"


def absent(office: Office) -> list[str]:
    return absent_sources(collect_evidence(office.settings, DAY, allow_partial=True).sources, DAY)


@pytest.mark.parametrize(
    ("sender", "receiver", "course", "expected"),
    [
        ("1.a", "1.b", FORWARD_COURSE, []),
        ("1.a", "1.gone", FORWARD_COURSE, ["1.gone"]),
        ("1.a", "1.gone", SENT, ["1.gone"]),
        ("1.a", "1.gone", f"{SENT} H:REFUSED@24 S:REJECTED@46", []),
        ("1.a", "1.gone", f"{SENT} H:DROPPED@24 S:DROPPED@46", []),
        ("1.a", "1.gone", "S:REFUSED@0", []),
        ("1.a", "1.gone", "S:INQUIRED@0", []),
        ("1.gone", "1.a", STORE_COURSE, ["1.gone.1.1"]),
        ("1.gone", "1.a", "R:RECEIVED@0", ["1.gone.1.1"]),
    ],
)
def test_an_institution_without_a_ledger_is_named_if_messages_need_its_ledger(
    office: Office, sender: str, receiver: str, course: str, expected: list[str]
) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.write(OfficeMessage(2, sender, receiver), course)
    office.extract(only=[name for name in office.lines if name != "1.gone"])
    assert absent(office) == expected


def test_a_missing_ledger_is_named_if_its_node_has_delivered_another(office: Office) -> None:
    lines = office.lines_of(OfficeMessage(1), FORWARD_COURSE)
    office.deliver([{**line, "lk0": line["lk0"].replace("1.a.1.1", "1.a.2.1")} for line in lines if line["side"] != 1])
    office.write(OfficeMessage(2), FORWARD_COURSE)
    office.extract(only=["1.a"])
    assert absent(office) == ["1.a.2.1"]


def test_a_ledger_that_delivered_the_date_before_is_expected(office: Office) -> None:
    office.write(OfficeMessage(1, at=-HOUR), FORWARD_COURSE)
    office.extract(DAY - timedelta(days=1))
    office.extract(only=["1.a", HUB])
    (office.folder("1.b")).mkdir(parents=True)
    assert absent(office) == ["1.b.1.1"]


def test_invalid_locators_and_nulls_name_no_source(office: Office) -> None:
    lines = office.lines_of(OfficeMessage(1), FORWARD_COURSE)
    invalid = [
        {**lines[2], "lk0": b"\xff\xfe", "seq": 90},
        {**lines[2], "lk0": "broken.7", "seq": 91},
        {**lines[2], "lk0": None, "target": None, "event": None, "side": None, "seq": 92},
    ]
    office.deliver([*lines, *invalid])
    assert absent(office) == []


def test_a_store_of_the_hub_is_named_by_copies_in_the_ledgers_of_two_nodes(office: Office) -> None:
    lines = office.lines_of(OfficeMessage(1), FORWARD_COURSE)
    stored = [
        {**line, "lk1": line["lk1"] and "2.1.7"}
        for line in office.lines_of(OfficeMessage(2), STORE_COURSE)
        if line["side"] != 2
    ]
    invented = [
        {**line, "lk1": "9.9.7"} for line in office.lines_of(OfficeMessage(3), FORWARD_COURSE) if line["side"] == 3
    ]
    office.deliver([*lines, *stored, *invented])
    assert absent(office) == [f"{HUB}.2.1"]
