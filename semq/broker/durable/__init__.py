"""Storage of durable definitions and persistent messages, and their restoration at the start of a broker.

| module        | subject                                                                    |
|---------------|----------------------------------------------------------------------------|
| `journal`     | the operations of one turn, passed to the store as one list                |
| `unwritten`   | operations that the store has not saved because it was unavailable         |
| `restoration` | the virtual hosts, rebuilt from the store                                  |
| `no_store`    | the store of nodes without a disk: durable objects are kept in memory only |
"""
