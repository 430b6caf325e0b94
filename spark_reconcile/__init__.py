"""Nightly reconciliation: compares what sender, hub and receiver recorded; one verdict for every message.

| modules                 | subject                                                  |
|-------------------------|----------------------------------------------------------|
| verdicts situation      | the verdicts, the grid, the words in its cells: pure     |
| schema manifest storage | format of extracts; storage of extracts and runs         |
| ledger extract          | a node's part: its ledger as Parquet                     |
| parcel delivery         | delivery of an extract to the hub, as documents          |
| extracting applying     | the commands that run beside a node                      |
| node vouching           | the node's configuration, its signatures                 |
| inputs evidence         | checks of extracts; the inputs of a run                  |
| facts clocks judging    | from lines to facts to verdicts, in Spark                |
| stages job runs limits  | one run, its folder, its thresholds                      |
| report                  | the page and the tables of a run                         |
| repair diff             | repair lists; differences between two runs               |
| java processes session  | Java and Spark                                           |
| progress                | messages about the progress of a run                     |
| settings days errors    | settings; business dates; errors                         |
| generate plant          | invented ledgers with known defects; defects in others   |

README.md describes running and sizing, DESIGN.md the contents of the files.
"""
