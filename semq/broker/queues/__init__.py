"""One queue and its messages.

| module       | subject                                                                   |
|--------------|---------------------------------------------------------------------------|
| `queue`      | one queue: its messages, consumers and limits                             |
| `message`    | one message, and its entry in one queue                                   |
| `ready`      | the waiting messages, in the order in which they leave                    |
| `consumers`  | the consumers and their turns                                             |
| `pages`      | messages of a long queue that are not in memory                           |
| `bodies`     | large bodies, kept in the store in chunks                                 |
| `delay`      | the messages that a delayed exchange holds until they are due            |
| `deadletter` | the headers of a message after it died in a queue, and cycles of queues   |
"""
