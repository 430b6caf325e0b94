"""Parts that both kinds of nodes share as processes: logs, signals, database, timers, administration.

Floor 4, beside ``local_node`` and ``platform_node``, which are strangers to each other.
"""
