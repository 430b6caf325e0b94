"""Benchmarks on real processes and a real Postgres: rates and latency, compared with the floor set by Postgres.

| module     | subject                                                                                |
|------------|----------------------------------------------------------------------------------------|
| __main__   | the command line, and the order of the phases                                          |
| cli        | arguments, output and clean termination, for all commands; its errors are in errors    |
| network    | a hub and its institutions as operating-system processes in a temporary folder         |
| load       | the applications: one that submits at A, those that receive, one that watches          |
| phases     | online, stored, latency: the work, and the beginning and end of the measured time      |
| large      | documents of 1 MiB beside small ones                                                   |
| backlog    | documents that wait for an offline institution                                         |
| rows       | rows and log written in a phase, read from Postgres' statistics                        |
| gauges     | processor time and memory of each process                                              |
| disk       | time of one durable write during the measurement                                       |
| floor      | the row changes of the reference, repeated by one script through psycopg               |
| reference  | these row changes                                                                      |
| peers      | SEMQ's nodes and a chain of RabbitMQ virtual hosts in turns                            |
| secrecy    | cost of certificates, TLS and seals                                                    |
| broker     | a node as a plain AMQP broker, beside RabbitMQ                                         |
| reconcile  | the nightly reconciliation, beside other engines                                       |

README.md of this folder explains the figures. No test depends on them.
"""
