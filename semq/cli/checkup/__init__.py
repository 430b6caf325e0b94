"""``semq doctor``, a module for each part that a node depends on; ``semq support-bundle``.

| module        | contents                                                                |
|---------------|-------------------------------------------------------------------------|
| doctor        | the command                                                             |
| finding       | one result: subject, verdict, advice                                    |
| daemon_thread | a call that may hang and does not delay the end of the process          |
| machine       | configuration file, data folder, free space, other paths, alert program |
| database      | connection, durability, replication, clock, connections, rights, tables |
| identity      | keys, certificate, authority                                            |
| hub_link      | the connection to the hub: name, port, TLS, login                       |
| direct_links  | the connections to partners with direct links                           |
| running_node  | the running node: port, health, stuck documents; other hub instances    |
| support       | ``semq support-bundle``: facts about a node in one archive              |
| redaction     | texts without secrets                                                   |

Checks change nothing: no server is started, no table migrated, no key made. A fault is a finding, not an exception.
"""
