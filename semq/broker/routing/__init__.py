"""The routing of a message from an exchange to queues.

| module          | subject                                                                    |
|-----------------|----------------------------------------------------------------------------|
| `exchanges`     | one class for each type of exchange                                        |
| `topic`         | the index of a topic exchange                                              |
| `headers_match` | the comparison of headers with the arguments of a binding                  |
"""
