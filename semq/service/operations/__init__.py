"""Operations of both kinds of nodes, and the definition of an operation.

| module    | contents                                                                    |
|-----------|-----------------------------------------------------------------------------|
| operation | a row of a table: name, kind, role, arguments, handler; binding to a node   |
| ports     | a node as operations see it                                                 |
| arguments | reading a request into a struct; fields that several operations have        |
| node      | status, health, metrics, reload, the list of operations                     |
| messages  | one message: its facts, trace and body, and why it is stuck                 |
| broker    | queues, consumers, connections, channels, exchanges, bindings, workers      |
| overview  | lists of messages, stuck and failed ones; figures of the queues             |
| census    | the count of all rows of the queues, shared by the operations of overview   |
| figures   | documents over time, latency, backlog                                       |
| outlook   | ``msg.outlook``                                                             |
| jobs      | scheduled jobs                                                              |
| inquiry   | ``msg.inquire``                                                             |
| proofs    | ``msg.prove``, ``ledger.verify``                                            |
| reload    | reading the configuration again                                             |
| tokens    | bearer tokens for the HTTP API                                              |
| people    | ``user.*``: persons, their roles and passwords                              |
| trust     | ``trust.list``, ``trust.add``, ``trust.remove``                             |
| audit     | the lines of the audit log about acts and payloads, ``audit.list``          |
"""
