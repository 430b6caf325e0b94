"""Requirements of a node in its database.

| module       | subject                                                                        |
|--------------|--------------------------------------------------------------------------------|
| durability   | the settings without which a confirmed COMMIT may be lost                      |
| requirements | the other requirements, for the start, `semq doctor` and health                |
| inspection   | what a database has before a store is opened there, and what it lacks later    |
"""
