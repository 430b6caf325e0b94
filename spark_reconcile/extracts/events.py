"""The events in the lines of an extract: notes, and the events of each side.

This module does not import Arrow: the console imports it (through ``judgement.verdicts``), also on a node that has only
the base packages.
"""

from semq.store.rows import Event, Side

# Notes: events that do not change a message's status. A message that has only notes gets no verdict, because a hostile
# peer can cause many of them.
NOTE_EVENTS = frozenset({Event.INQUIRED, Event.ANSWERED, Event.VIOLATION, Event.MISMATCH, Event.OPERATOR})
# The events that each side may write in schema version 1; a line with another event counts as unreadable.
EVENTS_OF: dict[Side, frozenset[Event]] = {
    Side.SENDER: frozenset(set(Event) - {Event.RELEASED, Event.RECEIVED, Event.PLATFORM_ACKED, Event.SENDER_ACKED}),
    Side.HUB: frozenset(set(Event) - {Event.RECEIVED, Event.PLATFORM_ACKED, Event.SENDER_ACKED}),
    Side.RECEIVER: frozenset(set(Event) - {Event.ACCEPTED, Event.RELEASED}),
}


def mask(*events: Event) -> int:
    """Return events as bits of one number: bit n is the event of number n."""
    return sum(1 << event for event in events)


NOTES = mask(*NOTE_EVENTS)
