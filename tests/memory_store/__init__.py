"""The store in memory: the contract of `semq.store.unit` without a disk, in which the simulator runs whole nodes.

| module        | contents                                                                     |
|---------------|------------------------------------------------------------------------------|
| `store`       | the writer of one process: queue, transactions and calls after the commit    |
| `tables`      | the content of the disk                                                      |
| `guards`      | what Postgres refuses by its constraints                                     |
| `submissions` | documents submitted by SQL                                                   |
| `ended`       | rows after their unit: fields that may change can no longer be read          |

`tests/store/postgres/test_store.py` holds both stores to the same contract.
"""
