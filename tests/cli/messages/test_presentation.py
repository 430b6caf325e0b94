"""Messages as text for people, also if the answer of the node lacks fields."""

import re

import pytest

from semq.answers.messages import MemberRow, TracedLine
from semq.cli.messages.presentation import (
    document_name,
    facts_of,
    list_row,
    member_row,
    name_of,
    outage_line,
    print_trace,
    status_of,
    stuck_lines,
    trace_line,
)
from semq.cli.output.printer import Output

LK0 = "1.10008.1.1.534a226699edc7f7.1099511627777"


def test_a_row_may_lack_all_fields() -> None:
    assert list_row({}) == ("", "", "to ", "", "", "")
    assert trace_line({}) == ""
    assert facts_of({}) == {}
    assert list(stuck_lines(None, {})) == ["It is not stuck."]


def test_the_outcome_has_priority_over_the_status() -> None:
    assert status_of({"ss_status": "SS_SENT", "outcome": "REJECTED"}) == "REJECTED"
    assert list_row({"side": "inbound", "source": "1.10008", "app_status": "NEW", "held": True})[2] == "from 10008"


def test_the_name_of_a_document_is_type_and_key() -> None:
    assert document_name({"app_key": "trade/order/std/S1/2", "lk0": "L"}) == "order S1/2"
    assert document_name({"app_key": "trade///"}) == "trade///"
    assert document_name({"app_key": "", "lk0": "L"}) == "L"


def test_the_name_of_a_message_is_its_short_name() -> None:
    assert name_of({"name": "1-1-4KN6M"}) == name_of({"lk0": LK0}) == "1-1-4KN6M"
    assert name_of({"lk0": "L"}) == "L"


def test_a_trace_names_the_other_messages_with_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    """The others need not be older or newer: all messages to the members of a group have the same key."""
    print_trace(Output(as_json=False), {"events": [], "others": [LK0, "sql-7"]})
    assert capsys.readouterr().err == "other documents with this key: 1-1-4KN6M, sql-7\n"


def test_names_come_first_and_empty_facts_are_left_out() -> None:
    shown = {"held": False, "reason": ["SEMQ-1", "why"], "custodian": None, "sid": 0, "lk0": LK0, "id": 7, "stuck": {}}
    assert list(facts_of(shown)) == ["name", "lk0", "reason", "position_in_sequence"]


def test_facts_have_names_that_people_know() -> None:
    """Answers and JSON keep the names of columns."""
    marker = facts_of({"lk0": LK0, "void": True, "sid": 7, "att": 2, "custodian": "2.hub.1.1.9", "save_fwd": 3})
    assert marker == {
        "name": "1-1-4KN6M",
        "lk0": LK0,
        "void_marker": "yes: it asks the receiver to record that the document will not come",
        "position_in_sequence": 7,
        "attempts": 2,
        "copy_at_hub": "2.hub.1.1.9",
        "save_fwd": 3,
    }
    received = facts_of({"lk0": LK0, "void": False, "sid": -1, "p_ack_status": "AS_INIT", "s_ack_status": "AS_ACK"})
    assert received == {"name": "1-1-4KN6M", "lk0": LK0, "ack_to_hub": "AS_INIT", "ack_to_sender": "AS_ACK"}
    assert facts_of({"p_ack_status": "AS_INIT", "lk1": None}) == {}  # the hub never had a copy


def test_the_number_of_a_submission_is_a_name_that_commands_accept() -> None:
    assert facts_of({"lk0": "sql-7", "submission": 7, "accepted_at": 5})["submission"] == "sql-7"


def test_lists_call_a_void_marker_by_its_name() -> None:
    assert list_row({"ss_status": "SS_SENT", "void": True, "held": True})[-1] == "SS_SENT held void marker"


def test_an_ended_message_is_described_with_outcome_and_time() -> None:
    [line] = stuck_lines(None, {"outcome": "DELIVERED", "ended_at": 1_000_000})
    assert line.startswith("It is not stuck: it ended DELIVERED (delivered) at 1970-01-01T")
    waits = {"meaning": "its target is not online", "stuck_at": 61_000}
    first, second = stuck_lines(None, {}, waits)
    assert first == "It waits: its target is not online."
    assert second.startswith("It counts as stuck from 1970-01-01T")
    cause, step = stuck_lines({"cause": "HELD", "meaning": "m", "next_step": "s"}, {})
    assert (cause, step) == ("HELD: m", "what to do: s")


def test_the_line_about_a_link_that_is_down_says_since_when_and_when_it_is_dialled_again() -> None:
    line = outage_line({"down_since": 1_000, "next_attempt_at": 9_000, "error": "SEMQ-1310 refused"})
    assert re.fullmatch(
        r"The link is down since 1970-01-01T\S+, next attempt at 1970-01-01T\S+: SEMQ-1310 refused", line
    )
    assert outage_line({"down_since": None, "error": "why"}) == "The link is down: why"


def test_of_a_traceback_in_a_trace_only_the_first_line_is_shown() -> None:
    line = {"at": 1_000_000, "event": "PARKED", "words": "parked", "detail": "ValueError: x\nTraceback\n  File"}
    assert trace_line(line).endswith("parked (ValueError: x) … 2 more lines: --full")


@pytest.mark.parametrize("full", [False, True])
def test_a_full_trace_has_the_digests(capsys: pytest.CaptureFixture[str], full: bool) -> None:
    event: TracedLine = {"at": 1_000_000, "event": "ACCEPTED", "words": "accepted", "digest": "0a" * 32, "size": 5}
    print_trace(Output(as_json=False), {"events": [event, {**event, "digest": ""}]}, full=full)
    assert capsys.readouterr().out.count(f"SHA-256 {'0a' * 32}, 5 bytes") == full


def test_a_group_is_shown_as_a_sum_and_a_row_for_each_member() -> None:
    member: MemberRow = {
        "lk0": LK0,
        "target": "1.56001/desk",
        "outcome": None,
        "ss_status": "SS_SENT",
        "reason": ["SEMQ-1", "why"],
    }
    found = facts_of({"lk0": LK0, "summary": {"DELIVERED": 2, "SS_SENT": 1}, "members": [member]})
    assert found == {"name": "1-1-4KN6M", "lk0": LK0, "summary": "2 DELIVERED, 1 SS_SENT"}
    assert member_row(member) == ("1-1-4KN6M", "56001/desk", "SS_SENT", "SEMQ-1 why")
