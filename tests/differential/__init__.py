"""The same operations against a node and against RabbitMQ; every reply is compared.

| file          | subject                                                              |
|---------------|----------------------------------------------------------------------|
| player        | plays a script on one broker and writes down what was heard          |
| scripts       | the scripts, one per subject                                         |
| chance        | scripts drawn by lot: whatever can be asked, in any order            |
| differences   | where a node differs on purpose, and why                             |
| recorded.json | what RabbitMQ answered to the scripts, for machines that have none   |

``./run differential`` plays scripts and lots on both; ``./run test`` plays the scripts on a node and compares with the
record.
"""
