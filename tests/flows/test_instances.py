"""Several instances of the hub: any node at any instance, any home, a faulty carrier (PROTOCOL.md section 10)."""

from itertools import product
from random import Random

import pytest
from msgspec.structs import replace

from semq.engine.hub import carried_link, instances
from semq.engine.hub.carrier import Asking, Came, Credit, Passed, StoreFrames
from semq.engine.hub.fronts import ALIVE_S, SILENT_S
from semq.engine.hub.sessions import PAUSE_S
from semq.engine.stored_envelopes import decode_envelope
from semq.umx_t.envelope import Data, Frame
from semq.umx_t.status import SendStatus
from tests.flows.several import Instance, Several
from tests.flows.trio import TrioWire
from tests.memory_store.store import MemoryStore

PLACES = list(product((1, 2), (1, 2), (1, 2), (1, 2)))  # instances of A and B, homes of A and B


def logged_in(a: int = 1, b: int = 2, home_a: int = 1, home_b: int = 2, count: int = 2) -> Several:
    """Make a hub of ``count`` instances; log in A and B at ``a`` and ``b``, with homes ``home_a`` and ``home_b``."""
    several = Several(count)
    several.log_in(several.a, a, home=home_a)
    several.log_in(several.b, b, home=home_b)
    return several


@pytest.mark.parametrize(("a", "b", "home_a", "home_b"), PLACES)
def test_a_document_for_a_node_that_is_online_is_forwarded_once_and_stored_nowhere(
    a: int, b: int, home_a: int, home_b: int
) -> None:
    several = logged_in(a, b, home_a, home_b)
    several.a.send(b"x", b"y")
    several.later(3)
    assert several.b.app.payloads == [b"x", b"y"]
    # No event "forwarded": the hub delays Ack-Fwd, and drops it after the Ack2.
    assert sorted(several.a.reported.kinds) == ["delivered", "delivered", "sent", "sent"]
    assert several.is_clean()
    stored = [instance.hub.core.counters.counts.get("stored", 0) for instance in several.instances]
    assert stored == [0, 0]
    forwarded = [instance.hub.core.counters.counts.get("forwarded", 0) for instance in several.instances]
    assert forwarded[home_b - 1] == sum(forwarded) == 2


@pytest.mark.parametrize(("a", "b", "home_a", "home_b"), PLACES)
def test_documents_for_a_node_that_is_offline_wait_in_its_home_in_their_order(
    a: int, b: int, home_a: int, home_b: int
) -> None:
    several = logged_in(a, b, home_a, home_b)
    several.cut(several.b)
    several.settle()
    several.a.send(b"1", b"2", b"3", order_key="k")
    several.settle()
    assert [instance.held for instance in several.instances] == [3 * (home_b == 1), 3 * (home_b == 2)]
    (row, *_) = several.a.store.tables.outbound.values()
    assert row.ss_status is SendStatus.SS_ACK
    several.log_in(several.b, b)
    several.later(3)
    assert several.b.app.payloads == [b"1", b"2", b"3"]
    assert several.is_clean()


@pytest.mark.parametrize(("a", "b", "home_a", "home_b"), PLACES)
def test_losses_repetitions_and_disorder_of_the_carrier_do_no_harm(a: int, b: int, home_a: int, home_b: int) -> None:
    several = logged_in(a, b, home_a, home_b)
    chance = Random(f"{a}{b}{home_a}{home_b}")
    several.carrier.lose = lambda message: chance.random() < 0.3
    several.carrier.repeat = lambda message: chance.random() < 0.2
    several.carrier.shuffle = chance.shuffle
    several.a.send(*(b"%d" % n for n in range(20)), order_key="k")
    several.b.send(*(b"%d" % n for n in range(20)), to="10008")
    several.later(300, 1.0)
    several.carrier.lose = lambda message: False
    several.later(900, 1.0)
    assert several.b.app.payloads == [b"%d" % n for n in range(20)]
    assert sorted(several.a.app.payloads) == sorted(b"%d" % n for n in range(20))
    assert several.is_clean()


def test_a_document_on_its_way_arrives_although_its_receiver_moves_to_another_instance() -> None:
    several = logged_in(1, 2, 1, 1)
    several.carrier.lose = lambda message: isinstance(message, Passed) and isinstance(message.frame, Data)
    several.a.send(b"x")
    several.settle()
    several.carrier.lose = lambda message: False
    several.cut(several.b)
    several.log_in(several.b, 1)
    several.settle()
    several.later(1)  # A has sent the document again (H15)
    assert several.b.app.payloads == [b"x"]
    several.later(3)
    assert several.is_clean()


def test_a_killed_instance_is_noticed_at_the_next_message_to_it() -> None:
    several = logged_in(1, 2, 1, 1)
    killed = several.instances[1]
    several.places.pop(several.b)  # no instance is notified of the end of B's session
    killed.kill()
    assert several.instances[0].is_elsewhere(several.b.address)
    several.a.send(b"x")
    several.settle()
    assert not several.instances[0].is_elsewhere(several.b.address)
    assert several.held == 1  # stored, because the carrier has reported the end of the instance


def test_a_silent_instance_counts_as_gone() -> None:
    several = logged_in(1, 2, 1, 1)
    several.later(ALIVE_S)
    several.places.pop(several.b)
    several.instances[1].kill()
    several.later(SILENT_S + ALIVE_S)
    assert not several.instances[0].is_elsewhere(several.b.address)


def test_while_no_instance_serves_a_home_no_document_is_lost_or_confirmed() -> None:
    several = logged_in(1, 1, 1, 2)
    home = several.instances[1]
    home.kill()
    several.a.send(b"x")
    several.settle()
    (row,) = several.a.store.tables.outbound.values()
    assert row.ss_status is SendStatus.SS_SENT
    several.instances.append(Instance(several, 2, MemoryStore(home.store.tables)))
    several.later(1)  # less than the interval of inquiries: the front has informed A
    assert several.b.app.payloads == [b"x"]
    several.later(3)
    assert several.is_clean()


def test_documents_for_a_retired_store_do_not_count_among_those_that_wait_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("semq.engine.hub.unserved_homes.DOCUMENTS_MAX", 1)
    several = logged_in(1, 1, 1, 3, count=3)
    second = several.instances[1]
    for home in several.instances[:0:-1]:
        home.kill()
    several.a.send(b"x")
    several.settle()
    several.count = 2  # the third store is retired
    several.homes[several.b.address] = second.name
    several.a.send(b"y")
    several.settle()
    several.instances.append(Instance(several, 2, MemoryStore(second.store.tables)))
    several.later(1)  # less than the interval of inquiries: the front has informed A
    assert several.b.app.payloads == [b"y"]


def test_a_copy_in_a_store_that_was_taken_over_is_delivered_and_deleted() -> None:
    several = logged_in(1, 1, 1, 2)
    several.cut(several.b)
    several.settle()
    several.a.send(b"x", ack2=False)
    several.settle()
    home = several.instances[1]
    assert home.held == 1
    home.kill()
    several.instances.append(Instance(several, 2, MemoryStore(home.store.tables)))
    several.log_in(several.b, 1)
    several.later(3)
    assert several.b.app.payloads == [b"x"]
    assert several.is_clean()


def test_a_document_does_not_end_while_no_instance_serves_the_store_that_holds_it() -> None:
    several = logged_in(1, 1, 1, 2)
    several.cut(several.b)
    several.settle()
    several.a.send(b"x")
    several.settle()
    several.instances[1].kill()
    several.log_in(several.b, 1)
    # A sends the document again after T_cust, but no instance serves B's home.
    several.later(600, 1.0)
    assert not {"delivered", "failed"} & set(several.a.reported.kinds)
    several.homes[several.b.address] = (1, 1)
    several.later(600, 1.0)
    assert several.b.app.payloads == [b"x"]
    assert several.a.reported.kinds[-1] == "delivered"


def test_one_of_two_sessions_of_one_node_ends() -> None:
    several = logged_in(1, 2, 1, 1)
    first, second = several.instances
    several.later(1)
    several.carrier.lose = lambda message: isinstance(message, Came)
    earlier = several.b.down
    several.log_in(several.b, 1)  # the instances have no reports of each other's sessions
    several.carrier.lose = lambda message: False
    assert earlier is not None
    second.hub.link_up(earlier)
    several.later(ALIVE_S * 3)
    assert first.ended_sessions == [several.b.address] or second.ended_sessions == [several.b.address]


def test_an_instance_requests_missed_reports() -> None:
    several = Several(3)
    several.log_in(several.a, 1, home=3)
    several.carrier.lose = lambda message: isinstance(message, Came)
    several.log_in(several.b, 2, home=3)
    several.carrier.lose = lambda message: False
    assert not several.instances[2].is_elsewhere(several.b.address)
    several.later(ALIVE_S * 2)
    assert several.instances[2].is_elsewhere(several.b.address)
    several.carrier.lose = lambda message: True
    several.cut(several.b)
    several.settle()
    several.carrier.lose = lambda message: False
    assert several.instances[2].is_elsewhere(several.b.address)
    several.later(ALIVE_S * 2)
    assert not several.instances[2].is_elsewhere(several.b.address)


def test_a_delayed_report_of_an_ended_session_does_not_replace_the_present_one() -> None:
    several = logged_in(1, 2, 1, 1)
    fronts = several.instances[0].others.fronts
    life = several.instances[1].life
    (earlier,) = (came for came in several.carrier.passed if isinstance(came, Came) and came.node == "1.56001")
    several.cut(several.b)
    several.log_in(several.b, 2)
    assert fronts.link(life, "1.56001", earlier.session + 1) is not None
    fronts.receive_came(life, earlier)
    assert fronts.link(life, "1.56001", earlier.session) is None
    assert fronts.link(life, "1.56001", earlier.session + 1) is not None


def test_a_session_elsewhere_gets_no_more_documents_than_its_front_reported_room_for() -> None:
    several = logged_in(1, 2, 1, 1)
    assert several.b.down is not None
    several.b.down.room = 3
    several.instances[1].hub.send_waiting(several.b.down)
    several.a.send(b"first")
    several.settle()
    several.lose = lambda wire, frame: wire is several.b.down
    link = several.instances[0].hub.sessions["1.56001"].link
    several.b.down.room = 2
    several.instances[1].hub.send_waiting(several.b.down)
    several.settle()
    several.carrier.lose = lambda message: isinstance(message, Passed)
    several.a.send(*(b"%d" % n for n in range(5)))
    several.settle()
    assert link.room == 0
    assert several.instances[0].held == 3  # two were sent


def test_documents_leave_the_store_although_a_report_of_room_was_lost() -> None:
    several = logged_in(1, 2, 1, 1)
    assert several.b.down is not None
    several.b.down.room = 0
    several.a.send(b"first")  # the room was reported when the session began
    several.settle()
    several.a.send(*(b"%d" % n for n in range(3)))
    several.settle()
    assert several.instances[0].held == 3
    several.carrier.lose = lambda message: isinstance(message, Credit)
    several.b.down.room = 9
    several.instances[1].hub.send_waiting(several.b.down)
    several.settle()
    several.carrier.lose = lambda message: False
    several.later(2 * several.settings.inquiry_s + ALIVE_S)
    assert several.instances[0].held == 0
    assert several.b.app.payloads == [b"first", b"0", b"1", b"2"]


def test_headers_count_among_the_bytes_under_way_to_a_session_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried_link, "BYTES_MAX", 2000)
    several = logged_in(1, 2, 1, 1)
    several.carrier.lose = lambda message: isinstance(message, Passed)
    for _ in range(3):
        several.a.send(b"", user_headers={"note": "x" * 1000})
        several.settle()
    assert several.instances[0].hub.sessions["1.56001"].link.room == 0
    assert several.instances[0].held == 1  # two were sent


def test_headers_count_among_the_bytes_for_a_session_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "BEYOND_BYTES_MAX", 2000)
    several = logged_in(1, 2, 1, 1)
    assert several.b.down is not None
    several.b.down.room = 0
    several.a.send(b"", b"", b"", user_headers={"note": "x" * 1000})  # the room was reported when the session began
    several.settle()
    assert several.instances[1].hub.core.counters.counts["carrier_dropped"] == 2
    several.b.down.room = 9
    several.instances[1].hub.send_waiting(several.b.down)
    several.later(60)
    assert several.b.app.payloads == [b"", b"", b""]
    assert several.is_clean()


def test_a_document_waits_while_the_carrier_is_away() -> None:
    several = logged_in(1, 2, 1, 1)
    for instance in several.instances:
        instance.others.note_cut()
    several.carrier.lose = lambda message: True
    several.a.send(b"x")
    several.later(5)
    assert several.instances[0].held == 1
    several.carrier.lose = lambda message: False
    for instance in several.instances:
        instance.others.note_joined()
    several.later(3)
    assert several.b.app.payloads == [b"x"]
    assert several.is_clean()


def test_an_instance_without_the_session_says_so_to_the_sender_of_frames_for_it() -> None:
    several = logged_in(1, 2, 1, 1)
    several.carrier.lose = lambda message: True
    several.cut(several.b)
    several.settle()
    several.carrier.lose = lambda message: False
    assert several.instances[0].is_elsewhere(several.b.address)
    several.a.send(b"x")
    several.settle()
    assert not several.instances[0].is_elsewhere(several.b.address)
    assert [instance.held for instance in several.instances] == [1, 0]


def test_changed_certificates_are_reported_and_a_new_instance_asks_for_the_sessions() -> None:
    several = logged_in(1, 2, 1, 1)
    second = several.instances[1]
    second.hub.keep_certificates(several.b.address, ("pem",))
    several.settle()
    assert [
        message for message in several.carrier.passed if isinstance(message, Came) and message.certificates == ("pem",)
    ]
    third = Instance(several, 3)
    several.instances.append(third)
    several.settle()
    assert third.is_elsewhere(several.b.address)
    assert any(isinstance(message, Asking) for message in several.carrier.passed)


def test_a_report_without_a_change_of_named_users_is_not_carried() -> None:
    several = logged_in(1, 2, 1, 1)
    node = several.b.address
    several.directory.group_members[f"4.{node.id}"] = [f"{node}/desk", f"{node}/zed"]
    for instance in several.instances:
        instance.hub.send_changed_directory()
    several.settle()
    several.b.engine.note_users(["desk", "zed"])
    several.settle()
    reports = [message for message in several.carrier.passed if isinstance(message, Came) and message.node == str(node)]
    assert reports[-1].users_present == ("desk", "zed")
    del several.directory.group_members[f"4.{node.id}"][1]
    several.b.engine.note_users(["desk"])
    several.later(PAUSE_S)
    assert several.instances[1].hub.sessions[str(node)].users_present == {"desk"}
    assert reports == [
        message for message in several.carrier.passed if isinstance(message, Came) and message.node == str(node)
    ]


def test_documents_for_a_node_whose_home_is_here_are_not_carried() -> None:
    several = logged_in(1, 1, 1, 1)
    several.a.send(b"x")
    several.later(3)
    assert several.b.app.payloads == [b"x"]
    assert not [message for message in several.carrier.passed if isinstance(message, StoreFrames | Passed)]


def test_a_new_signature_reaches_a_copy_in_the_former_home_of_its_target() -> None:
    several = logged_in(home_b=2)
    several.cut(several.b)
    sent: list[Data] = []

    def lose(wire: TrioWire, frame: Frame) -> bool:
        sent.extend([frame] if isinstance(frame, Data) and wire is several.a.up else [])
        return False

    several.lose = lose
    several.a.send(b"x")
    several.settle()
    several.homes[several.b.address] = 1, 1
    (frame,) = sent
    assert several.a.up is not None
    several.a.up.send(replace(frame, body=b"", envelope=replace(frame.envelope, signature="another")))
    several.settle()
    (stored,) = several.instances[1].store.tables.bodies.values()
    assert (decode_envelope(stored).signature, stored.payload) == ("another", b"x")
    assert several.held == 1
