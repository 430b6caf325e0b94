"""Outgoing records: the records of one turn with the same target and kind share packets of bounded size."""

from semq.engine.mail import Mail
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.records import Presence

HERE, A, B = Address(2, "hub"), Address(1, "a"), Address(1, "b")
KIND = Function.PRESENCE, Primitive.INDICATION


def test_records_with_the_same_target_are_sent_in_packets_of_bounded_size() -> None:
    calls: list[bool] = []
    mail = Mail(HERE, 3, calls.append)
    for n in range(7):
        mail.add(A, *KIND, Presence(node=str(n)))
    mail.add(B, *KIND, Presence(node="b"))
    packets = mail.flush()
    assert [(packet.target, len(packet.records)) for packet in packets] == [(A, 3), (A, 3), (A, 1), (B, 1)]
    assert [record.node for packet in packets[:3] for record in packet.records] == [str(n) for n in range(7)]
    assert all(packet.source == HERE for packet in packets)
    assert calls == [False]
    assert mail.flush() == []


def test_records_of_different_kinds_are_sent_in_different_packets() -> None:
    mail = Mail(HERE, 3, lambda later: None)
    kinds = [KIND, (Function.PRESENCE, Primitive.REQUEST), KIND]
    for n, kind in enumerate(kinds):
        mail.add(A, *kind, Presence(node=str(n)))
    packets = mail.flush()
    assert [(packet.primitive, [record.node for record in packet.records]) for packet in packets] == [
        (Primitive.INDICATION, ["0", "2"]),
        (Primitive.REQUEST, ["1"]),
    ]


def test_on_first_is_called_for_the_first_record_after_a_flush_and_by_schedule_flush() -> None:
    calls: list[bool] = []
    mail = Mail(HERE, 3, calls.append)
    mail.add(A, *KIND, Presence(node="1"))
    mail.flush()
    mail.add(A, *KIND, Presence(node="2"))
    mail.schedule_flush()
    assert calls == [False] * 3


def test_a_record_that_may_wait_leaves_with_the_first_one_that_may_not() -> None:
    calls: list[bool] = []
    mail = Mail(HERE, 3, calls.append)
    mail.add(A, *KIND, Presence(node="1"), later=True)
    mail.add(B, *KIND, Presence(node="2"), later=True)
    assert calls == [True]
    mail.add(A, *KIND, Presence(node="3"))
    mail.add(A, *KIND, Presence(node="4"), later=True)
    assert calls == [True, False]
    assert [[record.node for record in packet.records] for packet in mail.flush()] == [["1", "3", "4"], ["2"]]
    mail.add(A, *KIND, Presence(node="5"), later=True)
    assert calls == [True, False, True]
