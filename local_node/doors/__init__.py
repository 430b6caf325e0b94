"""The doors for applications.

| module                                | subject                                                     |
|---------------------------------------|-------------------------------------------------------------|
| submission, properties                | exchange ``semq``; AMQP properties                          |
| nacks                                 | nacked documents; slowing down of their publishers          |
| sql_submissions, refused_submissions  | documents submitted by SQL                                  |
| notices                               | jobs that run after a NOTIFY of Postgres                    |
| schedule                              | the release of scheduled documents                          |
| inbox, inbox_consumers                | queue ``semq.inbox``; its consumers; its message count      |
| user_presence                         | reports to the hub about users with a consumer              |
| events                                | exchange ``semq.events``                                    |
"""
