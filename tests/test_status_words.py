"""Every status that a row can have is described for people."""

from semq.status_words import WORDS
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Outcome, SendStatus

ANSWERS = {Arrival.NOT, Arrival.SETTLED}  # answers to inquiries: no row has them


def test_every_status_of_a_row_has_words() -> None:
    statuses = {*SendStatus, *Outcome, *AckStatus, *AppStatus, *Arrival} - ANSWERS
    assert {status.name for status in statuses} <= WORDS.keys()
