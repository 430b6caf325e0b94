"""An installation on this machine: a hub and institutions as processes, each with its own embedded Postgres.

| module         | contents                                                       |
|----------------|----------------------------------------------------------------|
| configuration  | the configuration files of all nodes                           |
| new_node       | the commented configuration of one new node                    |
| empty_database | copies of an empty database with all tables, for new nodes     |
| process        | one node as a process: start, wait, end                        |
| supervision    | one node that is started again after an unexpected end         |
| enrolment      | the first certificates of nodes                                |
| errors         | the error of a node that does not start                        |

Used by the demo, the tests of processes, the crash campaigns and the benchmarks; each user adds its own settings.
"""
