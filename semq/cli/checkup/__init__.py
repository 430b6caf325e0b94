"""``semq doctor``: one module for each part that a node depends on.

| module       | contents                                                                |
|--------------|-------------------------------------------------------------------------|
| doctor       | the command                                                             |
| finding      | one result: subject, verdict, advice                                    |
| machine      | configuration file, data folder, free space                             |
| database     | connection, durability, tables, clock, number of connections            |
| identity     | keys, certificate, authority                                            |
| hub_link     | the hub: name, port, TLS, login                                         |
| running_node | the running node: port, health, stuck messages                          |

Checks change nothing: no server is started, no table migrated, no key made. Each function returns findings and raises
nothing; an impossible check is a finding, too.
"""
