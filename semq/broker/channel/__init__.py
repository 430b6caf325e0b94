"""One channel: what clients ask for on it, what arrives and leaves, and its confirms.

| module                | subject                                                |
|-----------------------|--------------------------------------------------------|
| channel               | consumers, unsettled deliveries, confirms              |
| commands              | methods that define exchanges, queues, bindings        |
| publication, arrival  | basic.publish; large bodies as they arrive             |
| consumption, consumer | qos, consume, get, ack; one consumer                   |
| feeder                | large bodies as they leave                             |
| confirms, transaction | publisher confirms; tx                                 |
| gathered              | settlements of service queues, in batches              |
"""
