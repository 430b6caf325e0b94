"""SEMQ compared with RabbitMQ.

| module       | subject                                                                         |
|--------------|---------------------------------------------------------------------------------|
| peers        | SEMQ's nodes compared with the chain                                            |
| chain        | three RabbitMQ virtual hosts that stand for a hub and two institutions          |
| broker       | a node as a plain broker compared with RabbitMQ                                 |
| plain_broker | a node without a hub as a plain AMQP broker: ``./run broker``                   |
| debian       | the RabbitMQ of another release of Debian, in a folder                          |
| server       | Debian's RabbitMQ as processes, also for the crash tests and differential tests |
"""
