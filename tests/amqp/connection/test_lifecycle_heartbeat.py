"""Times at which a heartbeat is due and a peer is given up."""

from semq.amqp.connection.lifecycle import Heartbeat


def test_without_an_interval_no_heartbeat_is_due() -> None:
    heart = Heartbeat()
    assert (heart.send_at, heart.dead_at) == (None, None)
    heart.begin(0, 5.0)
    assert (heart.send_at, heart.dead_at) == (None, None)


def test_a_heartbeat_is_due_after_half_an_interval_and_a_peer_is_given_up_after_two() -> None:
    heart = Heartbeat()
    heart.begin(10, 100.0)
    assert (heart.send_at, heart.dead_at) == (105.0, 120.0)
    heart.sent_at, heart.received_at = 103.0, 104.0
    assert (heart.send_at, heart.dead_at) == (108.0, 124.0)
