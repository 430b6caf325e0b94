"""Differential tests: the same operations on a node and on RabbitMQ, with every reply compared.

| file          | subject                                                     |
|---------------|-------------------------------------------------------------|
| player        | plays a script on one broker and records the answers        |
| bare          | a step that sends bytes on a socket of its own              |
| scripts       | the scripts, one per subject                                |
| chance        | random scripts                                              |
| pipelines     | requests sent at once, and the order of their answers       |
| differences   | intended differences of a node, and the reasons             |
| recordings    | the answers of RabbitMQ, for machines without it            |
| recorded      | a file for each version                                     |
"""
