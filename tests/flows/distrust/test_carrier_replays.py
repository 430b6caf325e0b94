"""A stolen login at the carrier's broker, without the hub's key: captured messages that are sent again are dropped."""

from typing import Any, get_args

import pytest

from semq.engine.hub.carrier import Came, Message
from semq.engine.hub.instances import Instances
from tests.flows.several import Destination, Instance, Several

KINDS = get_args(Message)
B = "1.56001"


def destinations(instance: Instance) -> dict[str, Destination]:
    return {"all": ("all", 0), "front": ("front", instance.life), "store": ("store", instance.name)}


def dropped(instance: Instance) -> int:
    counts = instance.hub.core.counters.counts
    return counts.get("carrier_repeated", 0) + counts.get("carrier_unproved", 0)


@pytest.mark.parametrize("destination", ["all", "front", "store"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_message_is_received_once(
    kind: type[Any], destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent again at once, after a restart of the receiver, and after the end of the sender."""
    several = Several(2)
    several.settle()
    first, second = several.instances
    message = kind(*(None for _ in kind.__struct_fields__))
    received: list[Any] = []
    receive = Instances.receive

    def noted(instances: Instances, life: int, message: Any) -> None:
        if type(message) is kind and message is captured[-1]:
            received.append(message)
        else:
            receive(instances, life, message)

    captured: list[Any] = [first.life, several.carrier.last_number + 1, destinations(second)[destination], message]
    monkeypatch.setattr(Instances, "receive", noted)
    several.carrier.put(first.life, captured[2], message)
    several.settle()
    assert received == [message]

    def send_again() -> None:
        for _ in range(3):
            several.carrier.deliver(*captured)
        several.settle()

    before = dropped(second)
    send_again()
    assert (len(received), dropped(second)) == (1, before + 3)
    second.kill()
    restarted = Instance(several, 2, second.store)
    several.instances.append(restarted)
    send_again()  # before it knows the sender
    several.settle()
    send_again()
    first.kill()
    send_again()
    assert len(received) == 1
    assert (dropped(restarted) >= 9) is (destination != "front")  # the queue of the former incarnation is gone


@pytest.mark.parametrize("restart", [False, True])
def test_an_institution_cannot_be_kept_out_by_a_report_of_an_earlier_session(restart: bool) -> None:
    several = Several(2)
    captured: list[Any] = []
    put = several.carrier.put

    def capture(origin: int, destination: Destination, message: Message) -> None:
        put(origin, destination, message)
        if isinstance(message, Came) and destination[0] == "all":
            captured.append((origin, several.carrier.last_number, destination, message))

    several.carrier.put = capture  # type: ignore[method-assign]
    several.log_in(several.b, 1, home=1)
    several.settle()
    several.cut(several.b)
    several.settle()
    if restart:
        first = several.instances[0]
        first.kill()
        several.instances.insert(0, Instance(several, 1, first.store))
        several.settle()
    assert captured
    for again in captured * 20:
        several.carrier.deliver(*again)
    several.settle()
    second = several.instances[1]
    assert B not in second.hub.sessions
    several.log_in(several.b, 2)
    for again in captured * 20:
        several.carrier.deliver(*again)
    several.later(30)
    assert second.ended_sessions == []
    assert second.hub.sessions[B].is_here
    assert not second.others.fronts.probe(several.b.address)


def test_a_message_that_comes_before_its_sender_is_known_is_asked_for() -> None:
    """A new instance drops the first reports to all, and gets them in the answer to its question."""
    several = Several(2)
    several.log_in(several.b, 1, home=1)
    several.carrier.lose = lambda message: True
    third = Instance(several, 3)
    several.instances.append(third)
    several.settle()  # all questions are lost
    several.carrier.lose = lambda message: False
    several.later(6)  # the next signs of life
    assert third.is_elsewhere(several.b.address)
