"""``semq doctor``: one module for each part that a node depends on.

| module       | contents                                                                |
|--------------|-------------------------------------------------------------------------|
| doctor       | the command                                                             |
| finding      | one result: subject, verdict, advice                                    |
| machine      | configuration file, data folder, free space                             |
| database     | connection, durability, tables, clock, number of connections            |
| identity     | keys, certificate, authority                                            |
| hub_link     | the connection to the hub: name, port, TLS, login                       |
| direct_links | the connections to partners with direct links                           |
| running_node | the running node: port, health, stuck messages                          |

Checks change nothing: no server is started, no table migrated, no key made. A function ``check`` returns findings; a
check that fails is a finding, too. `doctor` makes findings of an OSError and of a check that takes too long.
"""
