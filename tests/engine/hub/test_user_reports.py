"""Reports about the users of an institution who receive documents now: from their node through the hub to the
partners.
"""

from semq.engine.hub.user_reports import PAUSE_S
from semq.umx_t.address import Address
from semq.umx_t.envelope import Frame, Function, Packet
from tests.flows.trio import Trio, TrioWire

B = Address(1, "56001")


def trio() -> Trio:
    """Return a trio in which B has two named users."""
    made = Trio()
    define(made, "desk", "zed")
    return made


def define(made: Trio, *users: str) -> None:
    made.directory.group_members[f"4.{B.id}"] = [f"{B}/{user}" for user in users]
    made.hub.send_changed_directory()
    made.settle()


def report(made: Trio, *users: str) -> None:
    made.b.engine.note_users(users)
    made.settle()


def present(made: Trio) -> tuple[str, ...]:
    """Return the users of B who receive documents now, as far as A knows."""
    return made.a.engine.partners.present.get(str(B), ())


def test_named_users_are_reported_whatever_number_of_others_receives() -> None:
    made = trio()
    report(made, *(f"a{number}" for number in range(1500)), "zed")
    assert present(made) == ("zed",)


def test_only_named_users_leave_the_node() -> None:
    made = trio()
    report(made, "desk", "secret")
    assert made.hub.sessions[str(B)].users_present == {"desk"}
    report(made, "desk", "other secret")
    assert made.hub.sessions[str(B)].users_present == {"desk"}


def test_a_user_who_is_named_later_is_reported_then() -> None:
    made = trio()
    report(made, "desk", "late")
    assert present(made) == ("desk",)
    define(made, "desk", "late")
    made.later(PAUSE_S)
    assert present(made) == ("desk", "late")


def test_the_last_of_many_reports_in_a_minute_reaches_the_partners() -> None:
    made = trio()
    packets: list[Packet] = []

    def collect(wire: TrioWire, frame: Frame) -> bool:
        if wire is made.a.down and isinstance(frame, Packet) and frame.function is Function.PRESENCE:
            packets.append(frame)
        return False

    made.lose = collect
    for _ in range(50):
        report(made, "desk")
        report(made)
    report(made, "zed")
    made.later(PAUSE_S)
    assert present(made) == ("zed",)
    assert len(packets) < 5
    assert "violation" not in made.hub.core.counters.counts


def test_a_partner_that_logs_in_between_two_reports_gets_the_last_one() -> None:
    made = trio()
    made.cut(made.a)
    report(made, "desk")
    report(made)
    made.connect(made.a)
    made.settle()
    report(made, "desk")
    made.later(PAUSE_S)
    assert present(made) == ("desk",)


def test_the_first_report_of_a_new_session_does_not_wait_for_the_one_before_it() -> None:
    made = trio()
    report(made, "desk")
    report(made, "zed")  # waits
    made.cut(made.b)
    made.settle()
    made.connect(made.b)
    made.settle()
    assert present(made) == ("zed",)
    assert made.hub.user_reports.next_due is None


def test_a_new_session_begins_with_the_users_who_receive_now() -> None:
    made = trio()
    report(made, "desk")
    made.cut(made.b)
    made.settle()
    assert present(made) == ()
    made.connect(made.b)
    made.settle()
    made.later(PAUSE_S)
    assert present(made) == ("desk",)
