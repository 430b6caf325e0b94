"""Sessions of institutions' nodes at the listening end: at the hub, and at a node with direct links.

| module       | subject                                                                         |
|--------------|---------------------------------------------------------------------------------|
| sessions     | the queues of each node, its login and presence, frames in both directions      |
| rights       | the virtual host of links, and the permissions of a node in it                  |
| allowance    | a limit on the rate of logins and renewals of each node                         |
| packet_limit | a limit on the packets of other nodes that wait for a node                      |
"""
