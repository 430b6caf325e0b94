"""Intended differences between a node and RabbitMQ: the script that shows one, the versions, and the reason.

DECISIONS.md lists differences that no script shows.
"""

from typing import NamedTuple


class Difference(NamedTuple):
    versions: tuple[str, ...]  #: beginnings of the versions that answer otherwise
    reason: str


KNOWN: dict[str, Difference] = {}


def known_differences(version: str) -> dict[str, str]:
    """Return the reasons of the scripts that a version of RabbitMQ answers otherwise."""
    return {name: known.reason for name, known in KNOWN.items() if version.startswith(known.versions)}
