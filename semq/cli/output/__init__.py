"""Output for people and programs.

| module  | contents                                                                     |
|---------|------------------------------------------------------------------------------|
| printer | ``Output``: tables, facts, lines, JSON; escapes foreign text                 |
| table   | the layout of tables                                                         |
| values  | values of answers as texts: times, sizes, numbers, statuses                  |
"""
