"""Commands on documents.

| module       | contents                                                                 |
|--------------|--------------------------------------------------------------------------|
| message      | ``msg send|wait|list|show|trace|body|prove``                             |
| inbox        | ``msg receive``                                                          |
| acts         | ``msg cancel|hold|release|resend|inquire``                               |
| queues       | ``queue list|partners|users``                                            |
| stuck        | ``stuck list|explain``                                                   |
| failed       | ``failed list|show|park|requeue|remove``                                 |
| worker       | ``worker``, ``worker list``                                              |
| legacy       | ``import``                                                               |
| presentation | documents as rows of tables and as lines                                 |
| files        | reading and writing documents as files                                   |
"""
