"""The hub's directory: the terms of agreements that it applies to messages."""

from msgspec.structs import replace

from platform_node.certificate_directory import KnownCertificates
from platform_node.definitions import read_definitions
from platform_node.directory import HubDirectory
from semq.engine.errors import QuotaReached, TooFast
from semq.umx_t.envelope import Envelope
from tests.clocks import ManualClock
from tests.flows.by_hand import message

AGREEMENT = "[nodes.10008]\n[nodes.56001]\n[[agreements]]\nfrom = ['10008']\nto = ['56001']\n"
DAY = 24 * 60  # minutes


class DirectoryScene:
    """A hub's directory with one agreement, and messages of its pair."""

    def __init__(self, terms: str) -> None:
        self.clock = ManualClock()
        self.directory = HubDirectory({}, KnownCertificates({}), self.clock)
        self.directory.apply(1, read_definitions(AGREEMENT + terms))
        self.waiting = 0

    def refused(self, envelope: Envelope) -> str:
        """Return the code of the refusal; empty if the message is accepted."""
        reason = self.directory.refuse(envelope, 1, lambda source, target: self.waiting)
        return reason[0] if reason is not None else ""

    def accepted(self, envelope: Envelope, count: int) -> int:
        """Return how many of some messages are accepted before one is refused for the rate."""
        for number in range(count):
            if code := self.refused(envelope):
                assert code == TooFast.code
                return number
        return count


FIRST = message(1).envelope
LATER = replace(FIRST, att=2)


def test_later_attempts_have_a_rate_of_their_own() -> None:
    scene = DirectoryScene("per_minute = 1\n")
    assert scene.accepted(LATER, 2 * DAY) == DAY
    assert scene.accepted(FIRST, 2 * DAY) == DAY
    scene.clock.now += 60
    assert scene.accepted(LATER, 2) == 1
    assert scene.accepted(FIRST, 2) == 1


def test_no_attempt_exceeds_the_number_of_waiting_documents() -> None:
    scene = DirectoryScene("waiting_max = 2\n")
    for scene.waiting, code in ((1, ""), (2, QuotaReached.code), (3, QuotaReached.code)):
        assert [scene.refused(envelope) for envelope in (FIRST, LATER)] == [code, code]
