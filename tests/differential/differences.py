"""Intended differences between a node and RabbitMQ: for each, the script that shows it, and the reason.

No script shows a difference at present. DECISIONS.md lists differences that no script shows: redelivery by recover with
requeue false, channel.flow with active false (both refused by RabbitMQ), and the header x-delivery-count
(``player.IGNORED``).
"""

KNOWN: dict[str, str] = {}
