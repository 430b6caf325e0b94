"""Measurements on real processes and a real Postgres: how fast documents travel, and how near that is to the floor.

| module     | what it holds                                                                          |
|------------|----------------------------------------------------------------------------------------|
| __main__   | the command line, and the order of the phases                                          |
| cli        | arguments, output and an orderly end, for all commands; its errors are in errors       |
| network    | a hub and its institutions as operating-system processes in a temporary folder         |
| load       | the applications: one that submits at A, those that receive, one that watches          |
| phases     | online, stored, latency: what is done and between which moments time is taken          |
| large      | documents of 1 MiB beside small ones                                                   |
| backlog    | documents that wait for an institution which is away                                   |
| rows       | the rows and the log that a phase really wrote, read from Postgres' own statistics     |
| gauges     | processor time and memory of each process                                              |
| disk       | how long the disk takes to make something durable, in the seconds that are measured    |
| floor      | the row changes of the reference, made again by one script straight through psycopg    |
| reference  | which row changes these are                                                            |
| peers      | our nodes and a chain of RabbitMQ virtual hosts in turns                               |
| secrecy    | what certificates, TLS and seals cost                                                  |
| broker     | a node as a plain AMQP broker, beside RabbitMQ                                         |
| reconcile  | the nightly reconciliation, beside other engines                                       |

How to read the figures is in README.md of this folder. No test looks at them.
"""
