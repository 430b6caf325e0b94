"""Nightly reconciliation: compares what sender, hub and receiver recorded; one verdict for every message.

| files                   | what lives there                                         |
|-------------------------|----------------------------------------------------------|
| verdicts situation      | the verdict table, the grid, the words it reads: pure    |
| schema manifest storage | what an extract is; where extracts and runs lie          |
| ledger extract          | a node's part: its ledger as Parquet                     |
| parcel delivery         | an extract on its way to the hub, as documents           |
| extracting applying     | the commands that work beside a node                     |
| node vouching           | the node's configuration, its signatures                 |
| inputs evidence         | what a run believes                                      |
| facts clocks judging    | lines to facts to verdicts, in Spark                     |
| stages job runs limits  | one run, its folder, whether it is good                  |
| report                  | what people and programs read                            |
| repair diff             | what to mend; how two runs differ                        |
| java processes session  | the machine under it                                     |
| progress                | how far a run is                                         |
| settings days errors    | what can be set; business dates; what can go wrong       |
| generate plant          | invented ledgers with known defects; defects in others   |

README.md says how to run it and how large a cluster must be, DESIGN.md what stands in the files.
"""
