"""Real processes, killed at every durable step: three nodes with their Postgres, bad links, and documents on the way.

| module        | what it holds                                                                                 |
|---------------|-----------------------------------------------------------------------------------------------|
| `documents`   | what is sent: drawn from the seed, the same bytes at each repeat                             |
| `book`        | what an application has received: its own durable book                                        |
| `application` | submitters and consumers as other people's programs would be                                  |
| `process`     | a node that dies and comes back                                                               |
| `proxy`       | the weather on a link: cuts, silence, delay, thin lines                                       |
| `world`       | the installation: hub, two institutions, proxies, applications                                |
| `faults`      | the kinds of faults as a table, the plan of a cycle, and how it is carried out                |
| `oracle`      | the judge: books against promises, ledgers, what is left in the queues                        |
| `campaign`    | cycles, rests, the report                                                                     |

`./run crash --cycles 200`; a failing campaign prints the command that repeats it and keeps its folder: the nodes'
logs, their databases, the books, and `leftover.txt` with the rows that should have gone. Named durable steps are
`semq.service.failpoints`.
"""
