"""Deadlines: callbacks are called in order, once, and not after a cancel."""

from semq.broker.timers import Timer, Timers


def test_timers_fire_in_order_and_only_when_due() -> None:
    timers, calls = Timers(), []
    for deadline in (3.0, 1.0, 2.0):
        timers.at(deadline, lambda deadline=deadline: calls.append(deadline))  # type: ignore[misc]
    timers.run(2.0)
    assert calls == [1.0, 2.0]
    assert timers.earliest() == 3.0
    timers.run(9.0)
    assert calls == [1.0, 2.0, 3.0]
    assert timers.earliest() is None


def test_a_cancelled_timer_is_not_called_and_not_kept() -> None:
    timers, calls = Timers(), []
    timer = timers.at(1.0, lambda: calls.append(1))
    timer.cancel()
    assert timers.earliest() is None
    timers.at(1.0, lambda: calls.append(2)).cancel()
    timers.run(5.0)
    assert calls == []


def test_a_timer_that_sets_a_timer_for_the_past_does_not_loop() -> None:
    timers, calls = Timers(), []

    def again() -> None:
        calls.append(1)
        timers.at(0.0, again)

    timers.at(0.0, again)
    timers.run(1.0)
    assert calls == [1]


def test_the_server_is_notified_of_an_earlier_deadline_only() -> None:
    received: list[float | None] = []
    timers = Timers(lambda: received.append(timers.earliest()))
    for deadline in (5.0, 7.0, 2.0):
        timers.at(deadline, lambda: None)
    assert received == [5.0, 2.0]


def test_cancelled_timers_do_not_accumulate() -> None:
    timers = Timers()
    live = [timers.at(1e9 + number, lambda: None) for number in range(10)]
    for number in range(1000):
        timers.at(1e6 - number, lambda: None).cancel()
    assert len(timers._heap) <= 2 * len(live)
    assert timers.earliest() == 1e9
    for timer in live:
        timer.cancel()
        timer.cancel()
    assert timers._heap == []


def test_a_timer_cancelled_by_another_timer_of_the_same_moment_does_not_run() -> None:
    timers, calls = Timers(), list[str]()
    doomed: list[Timer] = []
    timers.at(1.0, lambda: doomed[0].cancel())
    doomed.append(timers.at(1.0, lambda: calls.append("doomed")))
    timers.at(2.0, lambda: calls.append("later"))
    timers.run(1.0)
    timers.at(3.0, lambda: calls.append("last"))
    timers.run(5.0)
    assert calls == ["later", "last"]
