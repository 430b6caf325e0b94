"""The doors for applications.

| module                                | subject                                                     |
|---------------------------------------|-------------------------------------------------------------|
| submission, properties, nacks         | exchange ``semq``; AMQP properties; nacked documents        |
| sql_submissions, refused_submissions  | documents submitted by SQL                                  |
| inbox, backlog                        | queue ``semq.inbox``; its message count                     |
| events                                | exchange ``semq.events``                                    |
"""
