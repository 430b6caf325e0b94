"""Read-only queries for people and tools.

| module        | subject                                                                  |
|---------------|--------------------------------------------------------------------------|
| `messages`    | messages as facts for people: lists, traces, counts                      |
| `pages`       | pages of messages by any filter                                          |
| `names`       | the messages that a name may denote                                      |
| `groups`      | documents to a group, with the outcome of each member                    |
| `submissions` | submissions without a message: refused, waiting, scheduled, in pieces    |
| `pieces`      | documents in pieces                                                      |
| `failed`      | failed documents                                                         |
| `census`      | all rows of the queues, grouped by the columns that decide what is stuck |
| `held`        | copies that a hub stores                                                 |
"""
