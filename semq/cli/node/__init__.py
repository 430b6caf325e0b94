"""Commands on one node of either kind, and the commands that run nodes.

| module         | contents                                                              |
|----------------|-----------------------------------------------------------------------|
| administration | ``node status|health|metrics|missing|drain|…``                        |
| status         | the printed form of ``node status``                                   |
| enrolment      | ``node enroll``                                                       |
| certificates   | ``cert``                                                              |
| tokens         | ``token``                                                             |
| users          | ``user``                                                              |
| audit          | ``audit``                                                             |
| call           | ``call``: any operation by its name                                   |
| broker         | ``broker``                                                            |
| configuration  | ``config check|show|reference``                                       |
| database       | ``db upgrade|check|current|grant|url``                                |
| backup         | ``db backup|restore``                                                 |
| process        | ``node init|run``                                                     |
| virtual_server | ``server``: the nodes of many institutions in one process             |
"""
