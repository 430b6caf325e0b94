"""The functions, views and triggers in the database, in files of SQL that state each of them once, as it is now.

| file           | contents                                                                             |
|----------------|--------------------------------------------------------------------------------------|
| guards.sql     | guards of tables                                                                     |
| rights.sql     | rights of applications, and the signal that wakes the node                           |
| headers.sql    | conversion of stored headers to JSON                                                 |
| submission.sql | functions for applications that send                                                 |
| inbox.sql      | views and functions for applications that receive                                    |

``semq.store.postgres.migration`` runs the files in the transaction of the newest revision of the tables, after it.
"""
