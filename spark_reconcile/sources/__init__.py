"""Sources: the extracts that a run uses, and how complete they are.

| module   | subject                                                |
|----------|--------------------------------------------------------|
| inputs   | a state for every delivered extract                    |
| parts    | the check of one Parquet file                          |
| footer   | the column chunks in the footer of a Parquet file      |
| evidence | the extracts of a run and their periods                |
| mentions | ledgers and nodes named in the lines of a date         |
| gaps     | missing extracts, by ledger and date                   |
| late     | extracts that were delivered after the run of the date |
| clocks   | the difference between each node's clock and the hub's |
"""
