"""The store in memory: it implements `semq.store.work.WorkStore` without a disk. The simulator runs whole nodes on it.

| module        | contents                                                                     |
|---------------|------------------------------------------------------------------------------|
| `store`       | the writer of one process: queue, transactions and calls after the commit    |
| `tables`      | the content of the disk                                                      |
| `guards`      | what Postgres refuses by its constraints                                     |
| `submissions` | documents submitted by SQL                                                   |
| `ended`       | rows after their unit: fields that may change can no longer be read          |

`tests/store/postgres/test_store.py` compares it with the store on Postgres.
"""
