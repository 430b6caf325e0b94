"""Common parts of both kinds of nodes as processes: life, administration, monitoring, keys, companions.

``local_node`` and ``platform_node`` import it, and do not import each other.

| package or module               | subject                                                               |
|---------------------------------|-----------------------------------------------------------------------|
| process                         | the operating-system process: start, signals, end                     |
| node                            | the life of a node, and a new engine after a loss of the store        |
| engine_handle                   | the present engine of a node, as its other parts see it               |
| node_host                       | the resources of the process, and the first parts of a node           |
| database, standby, housekeeping | the node's Postgres; the claim to its store; its regular cleaning     |
| clockwork                       | timers and scheduled jobs                                             |
| clock_check                     | whether the clocks can be trusted with the deletion of rows by age    |
| links                           | sessions at the node that accepts the connection: hub or direct link  |
| datagrams                       | the channel over UDP beside a link                                    |
| intake                          | queues of received frames; the sessions take turns at the engine      |
| admin, access, operations       | the administration exchange; users and limits of AMQP; operations     |
| message_names, large_documents  | the search for a message by its name; documents in pieces             |
| story                           | the history of a message, as an answer to another party               |
| exchanged                       | documents exchanged with a partner, as an answer to the partner       |
| credentials                     | keys, certificates, TLS contexts, sealing                             |
| monitoring                      | health, alerts, metrics                                               |
| telemetry                       | spans of documents for an OpenTelemetry collector                     |
| companion                       | programs beside the node: folders, webhooks, web                      |
| figure_count                    | the job that counts the lines of the ledger                           |
| nightly_extract                 | the extract of the ledger, started as a process                       |
| log                             | log lines                                                             |
| errors                          | errors of requests that cannot be answered in full; a port in use     |
"""
