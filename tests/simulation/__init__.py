"""Simulation of whole nodes with faults: the real engine, a seeded clock and network, stores in memory.

| module, package  | subject                                                                                  |
|------------------|------------------------------------------------------------------------------------------|
| `timeline`       | virtual time: a queue of calls; the clocks that nodes read                               |
| `network`        | sessions between nodes: latency, cuts, half-open sessions, late and doubled frames       |
| `host`           | a process with its disk: store phases, timers, crashes and restarts                      |
| `application`    | applications that submit documents and receive them: slow, absent, failing               |
| `plan`           | the plan of a run, drawn from its seed                                                   |
| `documents`      | documents that are scheduled, to groups, or in pieces, and their invariants              |
| `directory`      | the directory of a process of the hub                                                    |
| `keys`           | certificates and keys that are renewed, revoked and enrolled anew                        |
| `direct`         | direct sessions of pairs of local nodes                                                  |
| `disturbances`   | kinds of faults; false hints; hints aimed at rare cells of the grids (decision tables)   |
| `oracle`         | the invariants of PROTOCOL.md section 6; occasions of the rules of section 7             |
| `world`          | the run of one seed; checks that all work ends                                           |
| `instances`      | runs with several instances of the hub, a carrier with faults, and homes that move       |
| `campaign`       | many seeds on many processors, counted                                                   |
| `command`        | the command line                                                                         |
| `runs`           | a process with a fixed hash seed, for all runs of a worker of pytest                     |
| `mutations`      | rules of PROTOCOL.md, each removed from the engine by a patch                            |
| `faulty_rules`   | what the mutations put in the place of the rules                                         |

`./run simulate --seeds 5000 [--instances 3]`; a failing seed prints the command that replays it. Without options, seeds
draw all features of ``plan.FEATURES``.
"""
