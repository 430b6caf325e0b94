"""Intended differences between a node and RabbitMQ: the script that shows one, and the reason.

DECISIONS.md lists differences that no script shows.
"""

KNOWN: dict[str, str] = {}
