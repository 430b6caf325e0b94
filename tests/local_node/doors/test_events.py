"""Events about the documents that an institution sends, as AMQP messages."""

from local_node.doors.events import event_message
from semq.engine.ports import AppEvent
from semq.umx_t.app_key import NO_KEY
from semq.umx_t.locator import LK0


def test_each_refusal_has_a_message_id_of_its_own() -> None:
    """Consumers drop message ids that they have seen; a refused document has no LK0, and possibly no token."""
    refused = [AppEvent("refused", None, None, NO_KEY, 1, token=token) for token in ("", "", "T1", "T1")]
    assert len({event_message(event)[0].message_id for event in refused}) == 4


def test_a_repeated_event_keeps_its_message_id() -> None:
    event = AppEvent("delivered", LK0(1, "a", 1, 1, 7, 1), None, NO_KEY, 1, 2)
    assert {event_message(event)[0].message_id for _ in range(2)} == {f"{event.lk0}/delivered/2"}
