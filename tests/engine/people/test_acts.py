"""The effects of acts, and the remedies of those that are not possible."""

import pytest

from semq.engine.errors import AlreadySent, NotEnded, PayloadGone
from semq.errors import SemqError
from tests.flows.trio import Trio


def test_acts_on_open_documents_are_refused_with_a_remedy() -> None:
    trio = Trio()
    trio.cut(trio.b)
    trio.a.send(b"kept")
    trio.a.send(b"given away", ack2=False)
    trio.settle()
    kept, given_away = (accepted.lk0 for accepted in trio.a.accepted)
    acts = trio.a.engine.acts
    acts.hold(kept, True, "", lambda: None, trio.a.refused.append)
    acts.remove(kept, "", lambda: None, trio.a.refused.append)
    acts.resend(given_away, "", lambda: None, trio.a.refused.append)
    trio.settle()
    assert [type(error) for error in trio.a.refused] == [AlreadySent, NotEnded, PayloadGone]
    remedies = [error.remedy for error in trio.a.refused if isinstance(error, SemqError)]
    commands = ("`semq msg cancel", "`semq msg cancel", "`semq held resend")
    assert all(command in remedy for command, remedy in zip(commands, remedies, strict=True))


def test_a_held_document_is_sent_by_resend() -> None:
    trio = Trio()
    trio.cut(trio.a)
    trio.a.send(b"held")
    trio.settle()
    acts, lk0 = trio.a.engine.acts, trio.a.accepted[0].lk0
    acts.hold(lk0, True, "", lambda: None, trio.a.refused.append)
    trio.settle()
    trio.connect(trio.a)
    trio.later(5)
    assert trio.b.app.payloads == []
    acts.resend(lk0, "now", lambda: None, trio.a.refused.append)
    trio.settle()
    assert trio.b.app.payloads == [b"held"]


@pytest.mark.parametrize("save_fwd", [1, 2])
def test_a_document_of_class_1_or_2_is_neither_cancelled_nor_sent_again_after_it_was_sent(save_fwd: int) -> None:
    trio = Trio()
    trio.lose = lambda wire, frame: wire is trio.a.down
    trio.a.send(b"sent once", save_fwd=save_fwd)
    trio.settle()
    acts, lk0, done = trio.a.engine.acts, trio.a.accepted[0].lk0, list[str]()
    written = len(trio.a.store.tables.ledger)
    acts.cancel(lk0, lambda: done.append("cancel"), trio.a.refused.append)
    acts.resend(lk0, "", lambda: done.append("resend"), trio.a.refused.append)
    trio.settle()
    assert [type(error) for error in trio.a.refused] == [AlreadySent, AlreadySent]
    assert not done
    assert len(trio.a.store.tables.ledger) == written
    assert [row.reason for row in trio.a.store.tables.outbound.values()] == [None]
