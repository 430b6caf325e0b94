"""The Postgres that a node starts for itself when no database is configured.

``server`` is the whole of it; ``programs`` finds the programs, ``cluster`` makes the data directory, ``process``
looks at what runs on it, ``identity`` decides as which user it runs, ``errors`` has what can go wrong.
"""
