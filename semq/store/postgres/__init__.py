"""The store on Postgres: the implementation of ``semq.store.work.WorkStore``.

| module                                   | subject                                                       |
|------------------------------------------|---------------------------------------------------------------|
| store                                    | opening, also after each loss; queries beside the writer      |
| writer                                   | group commit: all posted work in one transaction              |
| load, changes, statements                | what a unit loads; what it changes; the SQL of both           |
| conversion                               | rows as values and back; Postgres' binary format              |
| refusals                                 | rows that Postgres refused, for health and status             |
| pipeline                                 | one connection in libpq's pipeline mode                       |
| connections                              | connections, for processes with one store and with many       |
| recovery                                 | the state that a process needs at its start                   |
| lease, owner                             | one writer at a time, by an epoch                             |
| chain, ledger_partitions                 | the chain of the ledger; its partitions by day                |
| housekeeping                             | deletion of rows whose retention period has ended             |
| locked_bodies                            | bodies encrypted at rest                                      |
| schema_version, migration                | the version of the tables; their upgrade                      |
| conditions                               | what a node requires of its database, and its check           |
| roles, errors                            | roles of applications; errors                                 |
"""
