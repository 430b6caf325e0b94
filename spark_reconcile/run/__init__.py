"""A run: the comparison of one business date, with a folder of its own.

| module    | subject                                                 |
|-----------|---------------------------------------------------------|
| job       | the steps of a run                                      |
| stages    | the steps that read rows, in Spark                      |
| readings  | what the driver reads from the tables that stages wrote |
| documents | verdicts of documents in pieces                         |
| runs      | the folders of runs, and the pointer to the current run |
| limits    | thresholds of verdicts and volume                       |
| diff      | differences between two runs of a date                  |
"""
