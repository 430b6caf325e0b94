"""Whole nodes in a hostile world, on a seeded clock and network: the real engine, the real grids, a store in memory.

| module       | what it holds                                                                       |
|--------------|-------------------------------------------------------------------------------------|
| `timeline`   | virtual time: a queue of calls; the clocks that nodes read                          |
| `network`    | sessions between nodes: latency, cuts, half-open sessions, late and doubled frames  |
| `host`       | a process with its disk: store phases, turns, crashes, backups                      |
| `application`| what submits documents, and what receives them: slow, absent, failing               |
| `faults`     | the table of fault kinds, and the plan that a seed draws from it                    |
| `rumours`    | false hints, which are harmless                                                      |
| `namesakes`  | what is said of other messages under the number of a row                            |
| `drills`     | rumours with an aim: cells of the grids that chance seldom visits                   |
| `messages`   | the oracle's own book about each message                                            |
| `oracle`     | the invariants of PROTOCOL.md section 6, checked at every step                      |
| `world`      | puts it all together, runs one seed, demands liveness at the end                    |
| `campaign`   | many seeds on many processors, counted                                              |
| `mutations`  | rules of PROTOCOL.md section 7, each removed from the engine by a patch             |

`./run simulate --seeds 5000`; a failing seed prints the command that replays it.
"""
