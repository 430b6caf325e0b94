"""Benchmarks on real processes and a real Postgres: rates and latency, compared with the floor set by Postgres.

| folder or module           | subject                                                                            |
|----------------------------|------------------------------------------------------------------------------------|
| __main__                   | the command line, and the order of the phases                                      |
| cli, errors                | arguments, output and clean termination, for all commands; their errors            |
| network                    | a hub and its institutions as operating-system processes in a temporary folder     |
| lone_node, ports           | one node by itself; free ports                                                     |
| load                       | the applications: one submits at A, others receive, one watches A                  |
| phases                     | online, stored, latency: the work, and the start and end of the measured time      |
| large_documents, backlog   | documents of 1 MiB beside small ones; documents for an offline institution         |
| gauges, disk, interpreter  | processor time and memory of each process; durable writes; how Python was built    |
| floor                      | the row changes of the phases, repeated by one script through psycopg              |
| large, beside, bulk        | large documents; small ones without and beside them; the process of the large ones |
| datagrams, udp_relay       | documents as datagrams; a relay that loses a share of the datagrams                |
| soak                       | a steady load for many minutes                                                     |
| rabbitmq                   | SEMQ's nodes, and a node as a plain broker, compared with RabbitMQ                  |
| http                       | submissions and pages over HTTP, with large tables                                 |
| reconciliation             | the nightly job, compared with other engines                                       |
| cluster                    | a hub of two instances, compared with a hub of one process                         |
| sessions                   | many institutions: online at one hub, or in one virtual server                     |
| secrecy                    | networks with certificates, TLS and seals, compared with one without               |

README.md of this folder explains the figures. No test compares figures.
"""
