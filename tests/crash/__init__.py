"""Crash campaigns: real processes are killed at random times and at named steps, while documents travel on bad links.

| module          | contents                                                                       |
|-----------------|--------------------------------------------------------------------------------|
| `documents`     | the documents: drawn from the seed, the same bytes at each repetition          |
| `book`          | an application's own durable record of received documents                      |
| `application`   | submitters and consumers                                                       |
| `process`       | processes that are killed and restarted: a node, a shared database server      |
| `rabbitmq`      | a RabbitMQ node that is killed and restarted                                   |
| `proxy`         | faults of a link: cuts, silence, delay, low bandwidth                          |
| `installation`  | the processes of any installation under test; also of `tests.campaign`         |
| `world`         | the installation: hub, institutions, proxies, applications                     |
| `node_requests` | requests that are repeated until a node answers                                |
| `faults`        | the kinds of faults, the plan of a cycle, and the class that executes the plan |
| `oracle`        | the checks: records against promises, ledgers, remaining rows in queues        |
| `excuses`       | alarms and remaining rows that revocations and renewals explain                |
| `campaign`      | cycles, checks, the report                                                     |

`./run crash --cycles 200`; a failing campaign prints the command that repeats it and keeps its folder: logs, databases,
records, and `leftover.txt` with the rows that should have been deleted. The named steps are in `armed.failpoints`;
`python -m tests.crash.armed` runs a node that kills or suspends itself at one of them.
"""
