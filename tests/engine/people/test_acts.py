"""The remedies of acts that are not possible."""

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
