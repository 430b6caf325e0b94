"""Where a node differs from RabbitMQ on purpose: the script that shows it, and why.

None of the scripts shows any at the moment. What they leave out is in DECISIONS.md: redelivery by recover with requeue
false, channel.flow with active false (both refused by RabbitMQ), and the header x-delivery-count (``player.IGNORED``).
"""

KNOWN: dict[str, str] = {}
