"""Class and receipt are read from the detail of ledger lines ACCEPTED, and from nothing that an application wrote."""

import re
from itertools import product

import pytest

from semq.engine.sender.accepted_lines import ACK2_PATTERN, SAVE_FWD_PATTERN
from semq.store.rows import Event
from tests.flows.trio import Trio


def read(pattern: str, detail: str) -> str:
    found = re.search(pattern, detail)
    return found[1] if found else ""


@pytest.mark.parametrize(("save_fwd", "ack2"), [*product((1, 2, 3), (False, True))])
def test_class_and_receipt_are_read_back(save_fwd: int, ack2: bool) -> None:
    trio = Trio()
    trio.a.send(b"x", save_fwd=save_fwd, ack2=ack2)
    trio.settle()
    (line,) = [line for line in trio.a.store.tables.ledger if line.event is Event.ACCEPTED]
    assert (read(SAVE_FWD_PATTERN, line.detail), read(ACK2_PATTERN, line.detail)) == (str(save_fwd), str(int(ack2)))


def test_a_line_of_an_older_version_states_neither() -> None:
    detail = "member 1 of 2 of 1.a.1.1.3f.7 to 3.group/SaveFwd=1 Ack2=0"
    assert (read(SAVE_FWD_PATTERN, detail), read(ACK2_PATTERN, detail)) == ("", "")
