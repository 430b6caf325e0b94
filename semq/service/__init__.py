"""Common parts of both kinds of nodes as processes: logs, signals, database, timers, administration.

Floor 3.7, below ``local_node`` and ``platform_node``, which do not import each other.
"""
