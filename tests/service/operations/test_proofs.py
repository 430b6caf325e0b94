"""What `msg prove` reads in the ledger; tests/service/credentials/test_secrecy.py has whole proofs."""

import pytest

from semq.service.operations.proofs import RECEIPT


@pytest.mark.parametrize(
    ("detail", "found"),
    [
        ("receipt 17, entry 3, position 5, stated at T", ("17", "3", "5", "T")),
        ("receipt 17, entry 3, position none, stated at T", ("17", "3", "none", "T")),
        ("receipt 17, entry 3, stated at T", ("17", "3", None, "T")),
        ("receipt 17 place 3 sid -1 stated at T", ("17", "3", "-1", "T")),  # of older versions
        ("receipt 17 place 3 stated at T", ("17", "3", None, "T")),
    ],
)
def test_the_signed_receipt_of_a_message_is_found_in_its_ledger_line(
    detail: str, found: tuple[str, str, str | None, str]
) -> None:
    receipt = RECEIPT.fullmatch(detail)
    assert receipt is not None
    assert receipt.groups() == found
