"""Messages that wait to be published."""

from semq.carrier.outgoing import BATCH_BYTES, WaitingMessages


def test_messages_for_one_destination_leave_as_one_batch_in_order() -> None:
    outgoing = WaitingMessages()
    for number in range(5):
        outgoing.put("a", b"%d" % number)
        outgoing.put("b", b"x")
    assert list(outgoing.batches()) == [("a", [b"0", b"1", b"2", b"3", b"4"]), ("b", [b"x"] * 5)]
    assert outgoing.waiting_bytes == 0


def test_a_batch_ends_at_its_size_and_destinations_take_turns() -> None:
    outgoing = WaitingMessages()
    message = bytes(BATCH_BYTES // 2)
    for _ in range(3):
        outgoing.put("a", message)
    outgoing.put("b", b"x")
    assert [(name, len(batch)) for name, batch in outgoing.batches()] == [("a", 2), ("b", 1), ("a", 1)]


def test_batches_that_were_not_yielded_stay() -> None:
    outgoing = WaitingMessages()
    outgoing.put("a", b"1")
    outgoing.put("b", b"2")
    assert next(outgoing.batches()) == ("a", [b"1"])
    assert list(outgoing.batches()) == [("b", [b"2"])]


def test_beyond_the_bound_the_oldest_messages_of_the_queue_with_the_most_messages_are_dropped() -> None:
    outgoing = WaitingMessages(bytes_max=10)
    outgoing.put("short", b"12")
    for number in range(6):
        outgoing.put("long", b"%02d" % number)
    assert dict(outgoing.batches()) == {"short": [b"12"], "long": [b"02", b"03", b"04", b"05"]}
    assert outgoing.dropped == 2


def test_a_message_above_the_bound_is_still_sent() -> None:
    outgoing = WaitingMessages(bytes_max=10)
    outgoing.put("a", b"1")
    outgoing.put("b", bytes(20))
    assert dict(outgoing.batches()) == {"b": [bytes(20)]}
    assert outgoing.dropped == 1


def test_messages_dropped_by_clear_are_counted() -> None:
    outgoing = WaitingMessages()
    outgoing.put("a", b"1")
    outgoing.clear()
    assert (outgoing.dropped, outgoing.waiting_bytes, list(outgoing.batches())) == (1, 0, [])


def test_the_newest_message_is_never_dropped() -> None:
    outgoing = WaitingMessages(bytes_max=10)
    outgoing.put("a", b"1")
    outgoing.put("b", bytes(9))
    outgoing.put("a", b"22222")
    assert dict(outgoing.batches()) == {"a": [b"22222"]}
    assert (outgoing.dropped, outgoing.waiting_bytes) == (2, 0)
