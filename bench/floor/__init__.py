"""The floor of a measurement: the rate at which Postgres alone makes the row changes of the documents, sent by scripts.

| module    | subject                                                              |
|-----------|----------------------------------------------------------------------|
| reference | the row changes of a document, which stay the same for all versions  |
| rows      | the row changes of the nodes in a phase, from Postgres' statistics   |
| script    | the script that repeats the row changes of one node                  |
| floor     | the scripts of all nodes together                                    |
"""
