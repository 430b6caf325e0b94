"""Read-only queries for people and tools.

| module        | subject                                                                  |
|---------------|--------------------------------------------------------------------------|
| `selection`   | the filter of messages, and the place of a page                          |
| `messages`    | messages as facts for people, traces                                     |
| `pages`       | pages of messages by any filter                                          |
| `ended`       | pages and counts of ended documents, from the ledger                     |
| `names`       | the messages that a name may denote                                      |
| `groups`      | documents to a group, with the outcome of each member                    |
| `submissions` | submissions without a message: refused, waiting, scheduled, in pieces    |
| `pieces`      | documents in pieces                                                      |
| `failed`      | failed documents                                                         |
| `stuck`       | rows that may be stuck                                                   |
| `census`      | all rows of the queues, grouped by the columns that decide what is stuck |
| `figures`     | documents over time, by kind                                             |
| `held`        | copies that a hub stores                                                 |
| `exchanged`   | documents exchanged with one partner, from the ledger                    |
"""
