"""Extracts: a node's ledger of one business date as Parquet, and its way to the folder of the reconciliation.

| module     | subject                                       |
|------------|-----------------------------------------------|
| schema     | the rows of an extract                        |
| events     | the events in these rows                      |
| ledger     | a node's ledger in Postgres, as Arrow batches |
| extract    | an extract, written atomically                |
| manifest   | its period, files and signature               |
| parcel     | an extract as one stream of bytes             |
| delivery   | its way to the hub, as documents              |
| signatures | signatures of extracts and repair lists       |
| extraction | the commands `extract` and `collect`          |
| defects    | defects planted into extracts: `plant`        |
"""
