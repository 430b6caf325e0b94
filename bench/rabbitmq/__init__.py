"""Measurements beside RabbitMQ.

| module | subject                                                                         |
|--------|---------------------------------------------------------------------------------|
| peers  | SEMQ's nodes beside a chain of virtual hosts                                    |
| chain  | the chain of virtual hosts                                                      |
| broker | a node as a plain broker beside RabbitMQ                                        |
| server | Debian's RabbitMQ as processes, also for the crash tests and differential tests |
"""
