"""Outgoing records: the records of one turn for one peer are sent in one packet, or in several of bounded size."""

from semq.engine.mail import Mail
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.records import Presence

HERE, A, B = Address(2, "hub"), Address(1, "a"), Address(1, "b")
KIND = Function.PRESENCE, Primitive.INDICATION


def test_records_for_one_peer_are_one_packet_of_bounded_size() -> None:
    woken: list[bool] = []
    mail = Mail(HERE, 3, lambda: woken.append(True))
    for n in range(7):
        mail.add(A, *KIND, Presence(node=str(n)))
    mail.add(B, *KIND, Presence(node="b"))
    packets = mail.flush()
    assert [(packet.target, len(packet.records)) for packet in packets] == [(A, 3), (A, 3), (A, 1), (B, 1)]
    assert [record.node for packet in packets[:3] for record in packet.records] == [str(n) for n in range(7)]
    assert all(packet.source == HERE for packet in packets)
    assert woken == [True]
    assert mail.flush() == []


def test_the_driver_is_notified_of_the_first_record_after_a_flush_and_of_other_work() -> None:
    woken: list[bool] = []
    mail = Mail(HERE, 3, lambda: woken.append(True))
    mail.add(A, *KIND, Presence(node="1"))
    mail.flush()
    mail.add(A, *KIND, Presence(node="2"))
    mail.schedule_flush()
    assert len(woken) == 3
