"""Flows of documents through whole nodes, mostly over memory stores and an in-memory wire.

| module, folder | contents                                                   |
|----------------|------------------------------------------------------------|
| `trio`         | the hub and two institutions in one process                |
| `several`      | a trio whose hub has several instances                     |
| `sealed`       | a trio with certificates                                   |
| `lying`        | attacks of the hub of a sealed trio                        |
| `by_hand`      | a real link; the test plays the institution at one end     |
| `losing`       | a proxy that loses packets on a real link                  |
| `order`        | tests: the order of documents, turns of their sources      |
| `custody`      | tests: copies that the hub stores                          |
| `distrust`     | tests: false statements of peers                           |
| `secrecy`      | tests: seals, proofs, changes of keys                      |
| `pieces`       | tests: large documents over real databases                 |
| `real_nodes`   | tests: nodes as processes or over real databases           |
"""
