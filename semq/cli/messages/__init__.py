"""Commands on messages.

| module       | contents                                                                 |
|--------------|--------------------------------------------------------------------------|
| message      | ``msg send|wait|list|show|trace|body|prove``                             |
| inbox        | ``msg receive``                                                          |
| acts         | ``msg cancel|hold|release|resend|inquire``                               |
| queues       | ``queue list|partners``                                                  |
| stuck        | ``stuck list|explain``                                                   |
| failed       | ``failed list|show|park|requeue|remove``                                 |
| worker       | ``worker``, ``worker list``                                              |
| presentation | rows, traces and causes as text                                          |
| files        | documents in files                                                       |
"""
