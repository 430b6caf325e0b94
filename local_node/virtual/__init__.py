"""A virtual server: the local nodes of many institutions in one process.

| module      | contains                                                                                 |
|-------------|------------------------------------------------------------------------------------------|
| server      | the server: its institutions, according to its file                                      |
| institution | one institution: its node, and the task that starts the node again after a failure       |
| shared      | the common resources: port, Postgres server, threads, connections                        |
| operations  | the operations on all institutions, in virtual host ``/`` of the port                    |
| __main__    | the process                                                                              |

Each node is the same ``LocalNode`` as in a separate process.
"""
