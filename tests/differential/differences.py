"""Intended differences between a node and RabbitMQ: the script that shows one, the versions, and the reason.

DECISIONS.md lists differences that no script shows.
"""

from typing import NamedTuple


class Difference(NamedTuple):
    version: str  #: beginning of the versions that answer otherwise
    script: str
    reason: str


_UNKNOWN_TYPE = "one bad declaration does not end the other channels of its connection, as since RabbitMQ 4"
_RECOVER = "without requeue, messages go to their consumers again (AMQP 0-9-1, basic.recover), which RabbitMQ lacks"
_LAST_DEATH = "dead letters have headers x-last-death-*, as since RabbitMQ 4"
KNOWN = (
    Difference("3.", "exchanges are declared again", _UNKNOWN_TYPE),
    Difference("3.", "other channels stay open", _UNKNOWN_TYPE),
    Difference("3.", "dead letters", _LAST_DEATH),
    Difference("3.", "dead letters with a routing key", _LAST_DEATH),
    Difference("4.", "dead letters with a routing key", "the new routing key replaces CC, as in RabbitMQ 3"),
    Difference("", "recover without requeue", _RECOVER),
    Difference("4.", "headers", "the number 1.0 matches 1, as in RabbitMQ 3"),
    Difference("4.", "another queue type", "the text names the argument that was given, as in RabbitMQ 3"),
)


def known_differences(version: str) -> dict[str, str]:
    """Return the reasons of the scripts that a version of RabbitMQ answers otherwise."""
    return {known.script: known.reason for known in KNOWN if version.startswith(known.version)}
