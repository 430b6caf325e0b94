"""Campaigns over all doors: a notebook is compared with doors, ledgers and the verdicts of the reconciliation.

| module       | contents                                                                       |
|--------------|--------------------------------------------------------------------------------|
| `plan`       | what a campaign is repeated from                                               |
| `traffic`    | the table of kinds of documents, and the lanes that draw from it               |
| `notebook`   | what was handed over, told and received                                        |
| `senders`    | applications that hand over, a class for each door                             |
| `receivers`  | applications that receive, a class for each door                               |
| `world`      | the table of institutions, their nodes and applications                        |
| `faults`     | the table of faults, and the class that carries them out                       |
| `acts`       | faults by people and surroundings: certificates, agreements, disks, clocks     |
| `clocked`    | the program of a node whose wall clock is wrong                                |
| `statements` | what ledgers, figures and reconciliation say                                   |
| `judgement`  | the comparison                                                                 |
| `promises`   | what outcomes do not show: who is given what, when, and what faults refuse     |
| `samples`    | memory, descriptors, rows and latencies                                        |
| `campaign`   | traffic, faults, healing, comparison, the report                               |
| `shrink`     | repetitions of a failed campaign with less                                     |

`./run campaign --minutes 3`; a failing campaign prints the statements about the documents in question, and keeps its
folder: notebook, logs, databases, and `leftover.txt` with the rows that were never settled. The processes are those of
`tests.crash`.

The notebook judges, because ledgers alone agree with a node that refuses documents for no reason: an act that may
change outcomes notes codes, time and institutions, and every other end is a disagreement. Clocks are wrong by a
wrapper around `semq.clock`, not by libfaketime, which also changes the programs that a node starts. Links are cut and
slowed by proxies, and by the kernel where the user is root.
"""
