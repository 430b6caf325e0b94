"""A virtual server: the local nodes of many institutions in one process.

``server`` keeps the nodes: one task for each institution, which starts its node again after a failure; ``shared`` has
the common resources (port, Postgres server, threads, connections); ``operations`` are the operations on all
institutions, in virtual host ``/`` of the port; ``__main__`` is the process. Each node is the same ``LocalNode`` as
in a separate process.
"""
