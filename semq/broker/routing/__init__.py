"""The routing of a message from an exchange to queues.

| module          | subject                                                                    |
|-----------------|----------------------------------------------------------------------------|
| `routes`        | routing through bindings between exchanges and through alternate exchanges |
| `exchanges`     | one class for each type of exchange                                        |
| `topic`         | the index of a topic exchange                                              |
| `headers_match` | the comparison of headers with the arguments of a binding                  |
"""
