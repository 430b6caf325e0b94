"""Installations of real processes that are killed at random times and at named steps; links that fail.

| module          | contents                                                                       |
|-----------------|--------------------------------------------------------------------------------|
| `armed`         | processes that are killed and restarted, and kill themselves at named steps    |
| `rabbitmq`      | a RabbitMQ node that is killed and restarted                                   |
| `proxy`         | faults of a link: cuts, silence, delay, low bandwidth                          |
| `shaping`       | links that the kernel slows, and packets that it loses                         |
| `installation`  | the processes of any installation under test                                   |
| `trio`          | a hub and three institutions                                                   |
| `node_requests` | requests that are repeated until a node answers                                |
| `faults`        | the faults of any installation                                                 |

`tests.campaign` uses them with applications at all doors. The named steps are in `armed.failpoints`;
`python -m tests.crash.armed` runs a node that kills or suspends itself at one of them.
"""
