"""The work of each party: every exception counts once, and lost documents are for their sender to submit again."""

from datetime import date
from typing import Any

import pytest

from spark_reconcile.judgement.verdicts import EXCEPTIONS, RULES, SUBMIT_AGAIN
from spark_reconcile.report.work import (
    LATE_LEDGER,
    NO_LEDGER,
    REPAIR_TEXT,
    PartyWork,
    gap_facts,
    work,
    work_facts,
)
from spark_reconcile.sources.gaps import Gap
from spark_reconcile.sources.inputs import THE_HUB
from tests.spark_reconcile.office import DAY, HUB
from tests.spark_reconcile.report.examples import findings, source


def row(finding: str, verdict: str, messages: int, sender: str = "1.a", receiver: str = "1.b") -> dict[str, Any]:
    return {"finding": finding, "verdict": verdict, "messages": messages, "sender": sender, "receiver": receiver}


FOUND = findings(sources=(source(HUB, role="platform"),))


def test_work_is_grouped_by_party_and_way_the_largest_first() -> None:
    rows = [
        row("never_arrived", "MISSING_AT_HUB", 2), row("forwarded_to_no_avail", "NOT_DELIVERED", 3),
        row("never_arrived", "MISSING_AT_HUB", 1, sender="1.c"), row("sent_to_no_avail", "NOT_DELIVERED", 9),
        row("recorded_twice", "DUPLICATE_DELIVERED", 4), row("other_bytes", "DIGEST_MISMATCH", 1),
    ]  # fmt: skip
    command = f"semq reconcile apply --business-date {DAY} --config FILE --reports FOLDER --yes"
    found = work(rows, FOUND)
    assert [(each.role, each.nodes, each.documents) for each in found] == [
        ("hub", (HUB,), 9), ("sender", ("1.a",), 5), ("receiver", ("1.b",), 4), ("both ends", ("1.a", "1.b"), 1),
        ("sender", ("1.c",), 1),
    ]  # fmt: skip
    assert found[1].verdicts == (("NOT_DELIVERED", 3), ("MISSING_AT_HUB", 2))
    assert [each.command for each in found] == [command, command, "", "", command]
    assert found[1].text == REPAIR_TEXT
    facts = work_facts(found, {"1.a": "+86 1", "1.b": "+86 2"})
    assert facts[0]["verdicts"] == [["NOT_DELIVERED", "not delivered", 9]]
    # nobody is called where a command is enough
    assert [each["contacts"] for each in facts] == [[], [], ["+86 2"], ["+86 1", "+86 2"], []]


@pytest.mark.parametrize(
    ("gap", "word", "command"),
    [
        (Gap("1.a.1.1", DAY, 3), NO_LEDGER, f"semq reconcile extract --business-date {DAY} --config FILE"),
        (Gap("1.a.1.1", date(2026, 1, 2), 3, True), LATE_LEDGER, f"semq reconcile backfill --from 2026-01-02 --to {DAY}"),
        (Gap(THE_HUB, DAY, 3), NO_LEDGER, ""),
    ],
)  # fmt: skip
def test_an_absent_ledger_is_work_with_a_command_if_its_node_is_known(gap: Gap, word: str, command: str) -> None:
    facts = gap_facts(gap, DAY)
    assert (facts["source"], facts["messages"], facts["word"], facts["command"]) == (gap.name, 3, word, command)
    assert facts["text"]


def test_documents_that_a_restored_receiver_has_lost_are_for_their_sender_to_submit_again() -> None:
    (only,) = work([row("settled_without_record", "STATE_CONTRADICTION", 7)], FOUND)
    assert only == PartyWork("sender", ("1.a",), 7, (("STATE_CONTRADICTION", 7),), SUBMIT_AGAIN, "")


def test_every_exception_is_the_work_of_somebody() -> None:
    rules = [rule for rule in RULES if rule.verdict in EXCEPTIONS]
    found = work([row(rule.finding, rule.verdict, 1) for rule in rules], FOUND)
    assert sum(each.documents for each in found) == len(rules)
    assert all(each.text and (each.nodes or each.role == "analyst") for each in found)
