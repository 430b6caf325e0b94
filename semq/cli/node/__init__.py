"""Commands on one node of either kind.

| module         | contents                                                              |
|----------------|-----------------------------------------------------------------------|
| administration | ``node status|health|metrics|incarnation|drain|reload|list``          |
| status         | the page of ``node status``                                           |
| enrolment      | ``node enroll``                                                       |
| certificates   | ``cert``                                                              |
| call           | ``call``: any operation by its name                                   |
| broker         | ``broker``                                                            |
| configuration  | ``config check|show``                                                 |
| database       | ``db``                                                                |
| process        | ``local run``, ``platform run``                                       |
"""
