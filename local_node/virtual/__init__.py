"""A virtual server: the local nodes of many institutions in one process.

``server`` keeps the nodes: one task for each institution, which starts its node again after a failure; ``shared`` has
what they share (port, Postgres server, threads, connections); ``operations`` are those over all institutions, in
virtual host ``/`` of the port; ``__main__`` is the process. A node in it is the same ``LocalNode`` as in a process of
its own.
"""
