"""Nightly reconciliation: compares what sender, hub and receiver recorded; one verdict for every message.

| files                   | what lives there                                         |
|-------------------------|----------------------------------------------------------|
| verdicts situation      | the verdict table, the grid, the words it reads: pure    |
| schema manifest storage | what an extract is; where extracts and runs lie          |
| ledger extract parcel   | a node's part: its ledger as Parquet, its way to the hub |
| inputs evidence         | what a run believes                                      |
| facts clocks judging    | lines to facts to verdicts, in Spark                     |
| stages job runs limits  | one run, its folder, whether it is good                  |
| report                  | what people and programs read                            |
| repair diff             | what to mend; how two runs differ                        |
| java session progress   | the machine under it                                     |
| settings days errors    | what can be set; business dates; what can go wrong       |
| generate                | invented ledgers with known defects                      |

README.md says how to run it and how large a cluster must be, DESIGN.md what stands in the files.
"""
