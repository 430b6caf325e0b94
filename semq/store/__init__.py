"""Floor 1: Postgres. Knows rows and statuses, not sockets, and never what a message means.

| room                                  | subject                                                         |
|---------------------------------------|-----------------------------------------------------------------|
| unit, rows                            | the contract: one transaction, its rows as values               |
| tables, proof_tables, submission_tables | the schema                                                    |
| postgres                              | the contract on Postgres, with group commit                     |
| memory, ended                         | the contract in memory, in which the simulator runs whole nodes |
| embedded                              | a Postgres of the node's own                                    |
| broker                                | the durable half of the broker                                  |
| views                                 | read-only queries for people and tools                          |
| identities, files                     | who the hub lets in; files that survive a crash                 |
"""
