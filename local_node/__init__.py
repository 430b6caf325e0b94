"""An institution's node: connects applications, store, link and ``semq.engine.local_engine``.

| module               | subject                                                                       |
|----------------------|-------------------------------------------------------------------------------|
| node                 | the process                                                                   |
| parts                | its assembly; ``ports``: the parts, and the node as operations see it         |
| doors                | exchanges, queues and tables through which applications send and receive      |
| link                 | the connections to the hub and to partners                                    |
| pieces               | large documents, sent in pieces                                               |
| operations           | operations of administrators                                                  |
| enrolment, renewal   | the node's certificate; ``errors``: errors of requests to hub or partner      |
| succession           | a change of the hub's authority                                               |
| virtual              | the nodes of many institutions in one process                                 |
"""
