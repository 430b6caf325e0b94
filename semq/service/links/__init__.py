"""Sessions of institutions' nodes at the listening end: at the hub, and at a node with direct links.

| module    | subject                                                                            |
|-----------|------------------------------------------------------------------------------------|
| sessions  | the queues of each node, its login and presence, frames in both directions         |
| rights    | the virtual host, and what a node may read and write in it                         |
| allowance | a limit on expensive actions of each node                                          |
"""
