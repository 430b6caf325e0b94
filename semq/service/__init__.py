"""What both kinds of nodes share as running processes: logs, signals, database, the engine's clockwork.

The administrators' door.

Floor 4, beside ``local_node`` and ``platform_node``, which are strangers to each other.
"""
