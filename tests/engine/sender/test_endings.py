"""The notice to a receiver that a document in pieces was given up, stored in the commit that ends the manifest."""

import msgspec
import pytest
from msgspec.structs import replace

from semq.engine.sender.endings import REFUSALS, notice_due
from semq.store.rows import NoticeDue, Outbound
from semq.umx_t.address import parse_address
from semq.umx_t.app_key import AppKey
from semq.umx_t.locator import LK0
from semq.umx_t.status import Direction, Outcome, SaveFwd

DOCUMENT, MANIFEST = LK0(1, "10008", 1, 1, 0xAB, 7), LK0(1, "10008", 1, 1, 0xAB, 9)
ROW = Outbound(
    9, Direction.OWN, MANIFEST, parse_address("1.56001/desk"), SaveFwd.MUST, True, outcome=Outcome.REJECTED,
    reason=("SEMQ-1203", "too large"), app_key=AppKey("a", "b", "c", "K1"), document=str(DOCUMENT),
)  # fmt: skip


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.CANCELLED])
def test_the_notice_names_document_and_receiver(outcome: Outcome) -> None:
    due = notice_due(replace(ROW, outcome=outcome))
    assert isinstance(due, NoticeDue)
    assert due.document == 7
    assert msgspec.json.decode(due.notice) == {
        "document": str(DOCUMENT), "target": str(ROW.target), "domain": "a", "type": "b", "subtype": "c",
    }  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        replace(ROW, document=""),
        replace(ROW, outcome=None),
        replace(ROW, outcome=Outcome.DELIVERED),
        replace(ROW, outcome=Outcome.LOST),
        replace(ROW, outcome=Outcome.UNKNOWN),
        *(replace(ROW, reason=(code, "")) for code in REFUSALS),
    ],
)
def test_only_the_manifest_of_a_document_given_up_has_a_notice(row: Outbound) -> None:
    """After LOST and UNKNOWN a copy may still be recorded; after a code in REFUSALS the document is sent again."""
    assert notice_due(row) is None
