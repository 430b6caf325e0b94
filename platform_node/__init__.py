"""The hub, which connects the institutions' nodes: wiring and policy around ``semq.engine.hub_engine``.

| module                                 | subject                                                            |
|----------------------------------------|--------------------------------------------------------------------|
| node                                   | the hub as a process; ``ports``: the part that operations use       |
| definitions, pairs, directory          | institutions, agreements, groups, users                            |
| certificate_directory                  | the institutions' certificates, sent to their partners             |
| logins, registry, session_guard        | logins; issued certificates and tokens; checks of live sessions    |
| enrolment                              | exchange ``semq.enroll``                                           |
| authority_roll, authority_state        | a change of the hub's authority                                    |
| ask_exchange, questions, question_turns | exchange ``semq.ask``; questions to nodes; turns of the askers    |
| cluster, homes, all_stores             | a hub with several instances                                       |
| operations                             | operations of administrators; ``errors``: errors of the hub        |
"""
