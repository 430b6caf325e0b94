"""One channel: requests of clients, messages in both directions, and confirms.

| module                | subject                                                      |
|-----------------------|--------------------------------------------------------------|
| channel               | the state of a channel: consumers, unsettled deliveries, …   |
| ports                 | protocols between the parts, and to the connection           |
| commands              | methods that define exchanges, queues, bindings; queue.purge |
| requests              | what each event of a channel does                            |
| publication, arrival  | basic.publish; large bodies being received                   |
| consumption, consumer | qos, consume, cancel, get, recover, confirm, tx; a consumer  |
| feeder                | large bodies being sent                                      |
| reply_targets         | channels that wait for direct replies                        |
| confirms              | publisher confirms                                           |
| transaction, commit   | tx                                                           |
| settlements           | settlements of service queues, in batches                    |
"""
