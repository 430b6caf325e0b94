"""Measurements on real processes and a real Postgres: how fast documents travel, and how near that is to the floor.

| module   | what it holds                                                                     |
|----------|-----------------------------------------------------------------------------------|
| __main__ | the command line, and the order of the phases                                     |
| network  | a hub and two institutions as operating-system processes in a temporary folder    |
| load     | the applications: one that submits at A, one that receives at B, one that watches |
| phases   | online, stored, latency: what is done and between which moments time is taken     |
| rows     | the rows that a phase really changed, read from Postgres' own statistics          |
| floor    | the same row changes by one script straight through psycopg                       |
| broker   | a node as a plain AMQP broker, beside RabbitMQ                                    |
| disk     | how long the disk takes to make something durable                                 |

Figures of one machine are worth nothing on another; ratios to the floor of the same run are. No test looks at them.
"""
