"""Nightly reconciliation: compares what sender, hub and receiver recorded; one verdict for every message.

| module             | subject                                                              |
|--------------------|----------------------------------------------------------------------|
| extracts           | a node's part: its ledger as Parquet, delivered to the hub's storage |
| sources            | checks of extracts; the inputs of a run                              |
| judgement          | from ledger lines to facts of messages, and from these to verdicts   |
| spark              | the Spark session and its Java                                       |
| run                | one run, its folder, its thresholds                                  |
| report             | the page and the tables of a run                                     |
| repair             | lists of repairs, and their execution at a node                      |
| nightly, notice    | nights without people; their messages by mail and webhook            |
| language           | translations of the report                                           |
| commands, progress | the command line; messages about the progress of a run               |
| storage            | folders of extracts and runs, on a disk or an object store           |
| tables             | reading the tables that Spark wrote in a run                         |
| node               | the configuration of the node beside which a command runs            |
| settings, days     | settings; business dates                                             |
| errors             | errors with their exit codes                                         |

README.md describes running and sizing, DESIGN.md the contents of the files.
"""
