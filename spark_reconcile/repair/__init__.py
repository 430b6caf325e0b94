"""Repair: exceptions that a node may repair through the protocol.

| module      | subject                                   |
|-------------|-------------------------------------------|
| repair_list | the signed list of a node                 |
| acts        | the command `apply`, which carries it out |
"""
