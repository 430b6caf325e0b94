"""Reports about the users of an institution who receive documents now: from their node to the partners."""

from semq.engine.hub.sessions import PAUSE_S
from semq.umx_t.address import Address
from semq.umx_t.envelope import Frame, Function, Packet
from tests.flows.trio import Trio, TrioWire

B = Address(1, "56001")


def trio_with_users() -> Trio:
    trio = Trio()
    define(trio, "desk", "zed")
    return trio


def define(trio: Trio, *users: str) -> None:
    trio.directory.group_members[f"4.{B.id}"] = [f"{B}/{user}" for user in users]
    trio.hub.send_changed_directory()
    trio.settle()


def report(trio: Trio, *users: str) -> None:
    trio.b.engine.note_users(users)
    trio.settle()


def present(trio: Trio) -> tuple[str, ...]:
    """Return the users of B that are present according to A."""
    return trio.a.engine.partners.present.get(str(B), ())


def test_named_users_are_reported_whatever_number_of_others_receives() -> None:
    trio = trio_with_users()
    report(trio, *(f"a{number}" for number in range(1500)), "zed")
    assert present(trio) == ("zed",)


def test_only_named_users_leave_the_node() -> None:
    trio = trio_with_users()
    report(trio, "desk", "secret")
    assert trio.hub.sessions[str(B)].users_present == {"desk"}
    report(trio, "desk", "other secret")
    assert trio.hub.sessions[str(B)].users_present == {"desk"}


def test_a_user_who_is_named_later_is_reported_then() -> None:
    trio = trio_with_users()
    report(trio, "desk", "late")
    assert present(trio) == ("desk",)
    define(trio, "desk", "late")
    trio.later(PAUSE_S)
    assert present(trio) == ("desk", "late")


def test_the_last_of_many_reports_reaches_the_partners_after_the_pause() -> None:
    trio = trio_with_users()
    packets: list[Packet] = []

    def collect(wire: TrioWire, frame: Frame) -> bool:
        if wire is trio.a.down and isinstance(frame, Packet) and frame.function is Function.PRESENCE:
            packets.append(frame)
        return False

    trio.lose = collect
    for _ in range(50):
        report(trio, "desk")
        report(trio)
    report(trio, "zed")
    trio.later(PAUSE_S)
    assert present(trio) == ("zed",)
    assert len(packets) < 5
    assert "violation" not in trio.hub.core.counters.counts


def test_a_partner_that_logs_in_between_two_reports_gets_the_last_one() -> None:
    trio = trio_with_users()
    trio.cut(trio.a)
    report(trio, "desk")
    report(trio)
    trio.connect(trio.a)
    trio.settle()
    report(trio, "desk")
    trio.later(PAUSE_S)
    assert present(trio) == ("desk",)


def test_the_first_report_of_a_new_session_does_not_wait_for_a_report_of_the_former_session() -> None:
    trio = trio_with_users()
    report(trio, "desk")
    report(trio, "zed")  # waits
    trio.cut(trio.b)
    trio.settle()
    trio.connect(trio.b)
    trio.settle()
    assert present(trio) == ("zed",)
    assert trio.hub.user_reports.next_due is None


def test_a_new_session_begins_with_the_users_who_receive_now() -> None:
    trio = trio_with_users()
    report(trio, "desk")
    trio.cut(trio.b)
    trio.settle()
    assert present(trio) == ()
    trio.connect(trio.b)
    trio.settle()
    trio.later(PAUSE_S)
    assert present(trio) == ("desk",)
