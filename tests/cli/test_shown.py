"""Messages for people: nothing is needed that a node might leave out."""

from semq.cli.shown import document, facts_of, list_row, status_of, trace_line


def test_a_row_may_lack_everything() -> None:
    assert list_row({}) == (None, "", "to ", "", "", "")
    assert trace_line({}) == ""
    assert facts_of({}) == {}


def test_the_outcome_is_worth_more_than_the_status() -> None:
    assert status_of({"ss_status": "SS_SENT", "outcome": "REJECTED"}) == "REJECTED"
    assert list_row({"side": "inbound", "source": "1.10008", "app_status": "NEW", "held": True})[2] == "from 10008"


def test_a_document_is_called_by_type_and_key() -> None:
    assert document({"app_key": "trade/order/std/S1/2", "lk0": "L"}) == "order S1/2"
    assert document({"app_key": "trade///"}) == "trade///"
    assert document({"app_key": "", "lk0": "L"}) == "L"


def test_statuses_are_explained_and_empty_facts_left_out() -> None:
    shown = {"ss_status": "SS_ACK", "held": False, "reason": ["SEMQ-1", "why"], "custodian": None, "accepted_at": 1}
    facts = facts_of(shown)
    assert (facts["ss_status"], facts["held"], facts["reason"]) == ("SS_ACK (stored at the hub)", "no", "SEMQ-1 why")
    assert "custodian" not in facts
