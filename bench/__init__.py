"""Benchmarks on real processes and a real Postgres: rates and latency, compared with the floor set by Postgres.

| folder or module          | subject                                                                        |
|---------------------------|--------------------------------------------------------------------------------|
| __main__                  | the command line, and the order of the phases                                  |
| cli, errors               | arguments, output and end of all commands; errors                              |
| network                   | a hub and its institutions as processes                                        |
| lone_node, ports          | one node by itself; free ports                                                 |
| load                      | the applications: one submits at A, others receive, one watches A              |
| phases                    | the phases online, stored and latency, and what each one measures              |
| large_documents, backlog  | the phases with large documents, and with documents for an offline institution |
| gauges, disk, interpreter | processor time and memory; durable writes; how Python was built                |
| floor                     | the row changes of the phases, repeated through psycopg                        |
| everyday                  | what a document costs each process at everyday rates, by activity              |
| large                     | ``./run bench large``: one large document                                      |
| beside, bulk              | ``large --beside``: small documents beside large ones; the process of the large |
| datagrams, udp_relay      | documents as datagrams; a relay that loses some                                |
| rabbitmq                  | SEMQ's nodes, and a node as a plain broker, compared with RabbitMQ             |
| versions                  | this version compared with an older one                                        |
| http                      | submissions and pages over HTTP, with large tables                             |
| reconciliation            | the nightly job, compared with other engines                                   |
| cluster                   | a hub of two instances, compared with one process                              |
| sessions                  | many institutions at one hub, or in one virtual server                         |
| secrecy                   | networks with certificates, TLS and seals, compared with one without           |

README.md of this folder explains the figures.
"""
