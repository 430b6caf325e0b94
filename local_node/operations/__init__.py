"""Operations of a local node, in addition to those in ``semq.service.operations``.

| module       | operations                                                          |
|--------------|---------------------------------------------------------------------|
| table        | the table of all operations                                         |
| submission   | ``msg.submit``                                                      |
| messages     | cancel, hold, release, resend; requeue and remove; drain            |
| trace        | ``msg.trace``: the records of sender, hub and receiver              |
| missing      | ``node.missing``: what a restored store lacks                       |
| legacy       | messages that an older SEMQ delivered before the import             |
| failed       | list, show and park failed documents                                |
| users        | ``users.list``                                                      |
| certificates | the node's own certificate                                          |
"""
