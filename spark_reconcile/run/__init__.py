"""A run: one business date compared, with its own folder.

| module | subject                                                 |
|--------|---------------------------------------------------------|
| job    | the steps of a run                                      |
| stages | the steps that touch rows, in Spark                     |
| runs   | the folders of runs, and the pointer to the current one |
| limits | thresholds of verdicts and volume                       |
| diff   | differences between two runs of a date                  |
"""
