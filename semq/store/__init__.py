"""Floor 1: rows and transactions in Postgres. Opens no AMQP connections, and does not interpret messages.

| module or package                     | subject                                                         |
|---------------------------------------|-----------------------------------------------------------------|
| unit, work, rows                      | the interface: one transaction, work on it, its rows as values  |
| recent_rows                           | rows in the writer's memory that the next unit need not load    |
| spans                                 | ranges of record ids whose messages the hub has in custody      |
| tables, proof_tables, submission_tables, web_tables, figure_tables | the schema                         |
| figures                               | the count of the ledger's lines by period, institutions, event  |
| postgres                              | the interface on Postgres, with group commit                    |
| sql                                   | functions, views and triggers in the database                   |
| migrations                            | revisions of the tables                                         |
| bodies_ahead                          | large bodies that are stored before the work with their rows    |
| embedded                              | a Postgres server that the node runs itself                     |
| broker                                | the durable part of the broker                                  |
| views                                 | read-only queries for people and tools                          |
| identities, files                     | the nodes that the hub admits; crash-safe writing of files      |
| control                               | the control database of a hub with several instances            |
| reader                                | queries on connections other than the writer's                  |
| backup                                | backups of a database, and their restore                        |
| accounts, audit                       | users, tokens and audit log of the web process                  |
"""
