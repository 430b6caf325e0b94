"""The HTTP API, ``/api/v1``.

| module          | subject                                                                     |
|-----------------|-----------------------------------------------------------------------------|
| routes          | the table of all endpoints of a kind of node                                |
| endpoint        | one endpoint: caller, rates, rights, problem documents                      |
| authentication  | bearer tokens, users of the node, client certificates, sessions             |
| logins          | connections of the node's users                                             |
| node_operations | an endpoint for each operation of the node                                  |
| attributes      | attributes of documents in headers, query and JSON                          |
| documents       | submit and search documents; state, trace and body of a document            |
| inbox, leases   | receive by long polling; acknowledge within the time of a lease             |
| polls           | long polls; they end without a client, or without space for an answer       |
| sent_events     | events that streams have sent, for clients that reconnect                   |
| events          | events about sent documents as server-sent events                           |
| description     | the OpenAPI document                                                        |
"""
