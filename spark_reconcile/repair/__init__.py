"""Repair: exceptions that a node may repair through the protocol.

| module      | subject                                                |
|-------------|--------------------------------------------------------|
| repair_list | the list for a node, its files and its signature       |
| acts        | the command `apply`, which carries out a node's list   |
"""
