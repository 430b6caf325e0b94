"""The store on Postgres: the implementation of the contract in ``semq.store.unit``.

| module                                   | subject                                                       |
|------------------------------------------|---------------------------------------------------------------|
| store                                    | opened at the start and after each loss; read beside the writer |
| writer                                   | group commit: all posted work in one transaction              |
| load, changes, statements                | what a unit loads; what it changes; the SQL of both           |
| rows, binary                             | rows as values and back; Postgres' binary format              |
| pipeline                                 | one connection in libpq's pipeline mode                       |
| recovery                                 | what a process must know before it works                      |
| lease, owner                             | one writer at a time, by an epoch                             |
| chain, ledger_partitions                 | the chain of the ledger; its partitions by day                |
| housekeeping                             | what must be forgotten in time                                |
| locked_bodies                            | bodies encrypted at rest                                      |
| migration, durability, roles, errors     | the schema; what Postgres must promise; roles; errors         |
"""
