"""Common parts of both kinds of nodes as processes: life, administration, monitoring, keys, companions.

Floor 3.7, below ``local_node`` and ``platform_node``, which do not import each other.

| room or module                 | subject                                                             |
|--------------------------------|---------------------------------------------------------------------|
| process                        | the operating-system process: start, signals, end                   |
| node                           | the life of a node, and of its engine after a loss of the store     |
| database, standby, housekeeping | the node's Postgres, the claim to it, and its regular cleaning     |
| clockwork                      | timers and scheduled jobs                                           |
| links                          | sessions of nodes at the listening end: at a hub, and of direct links |
| intake                         | received frames, waiting in turns for the engine                    |
| admin, access, operations      | the administration exchange, its users, its operations              |
| message_names, story           | messages by name; their history as an answer to another party       |
| credentials                    | keys, certificates, TLS contexts, sealing                           |
| monitoring                     | health, alerts, metrics                                             |
| telemetry                      | spans of documents for an OpenTelemetry collector                   |
| companion                      | programs beside the node: folders, webhooks, web                    |
| nightly_extract                | the extract of the ledger, started as a process                     |
| log                            | log lines                                                           |
| errors                         | requests that a node cannot begin to answer                         |
"""
