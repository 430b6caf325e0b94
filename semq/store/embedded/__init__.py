"""The Postgres server that a node runs itself if no database is configured.

``server`` is the interface; ``programs`` finds the programs, ``cluster`` makes the data directory, ``process`` inspects
the processes that use it, ``identity`` selects the user that runs them, ``errors`` lists the errors.
"""
