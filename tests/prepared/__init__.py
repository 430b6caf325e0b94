"""Nodes that start without imports: forks of one process that has imported all modules of a node.

The process of pytest starts one server. The workers of pytest, and the programs that they start by
``client.command_of``, ask the server for new nodes through a socket. Two processes belong to each node:

    caller -- socket -- keeper -- node

The server forks the keeper, and the keeper forks the node, which runs a module as ``python -m`` does. The caller
receives the node's process id and, at its end, its status. Until then the node remains a zombie, so that no other
process gets its id.

| module    | contents                                                                |
|-----------|-------------------------------------------------------------------------|
| `client`  | the caller: a process for ``NodeProcess``, commands of programs         |
| `server`  | the server, the keeper, and the first steps of a node                   |
| `program` | runs a program whose nodes the server starts                            |
| `sample`  | a program for the tests of this package                                 |
"""
