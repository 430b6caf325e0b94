"""The HTTP API, ``/api/v1``.

| module          | subject                                                                     |
|-----------------|-----------------------------------------------------------------------------|
| routes          | the table of all endpoints of a kind of node                                |
| endpoint        | one endpoint: who asks, rates, rights, problem documents                    |
| authentication  | bearer tokens, users of the node, client certificates, sessions             |
| logins          | connections of users of the node                                            |
| node_operations | an endpoint for each operation of the node                                  |
| documents       | submit a document; state, trace and body of one                             |
| inbox, leases   | receive by long polling; acknowledge within a time                          |
| sent_events     | what streams have sent, for clients that come back                          |
| events          | events about sent documents as server-sent events                           |
| description     | the OpenAPI document                                                        |
"""
