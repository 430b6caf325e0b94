"""Output for people and programs.

| module  | contents                                                                     |
|---------|------------------------------------------------------------------------------|
| printer | ``Output``: tables, facts, JSON; foreign text is escaped                     |
| table   | the layout of tables                                                         |
| values  | times, sizes, numbers and statuses in words                                  |
"""
