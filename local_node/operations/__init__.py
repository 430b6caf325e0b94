"""Operations of a local node, besides those in ``semq.service.operations``.

| module       | operations                                                          |
|--------------|---------------------------------------------------------------------|
| table        | all of them, as rows                                                |
| submission   | ``msg.submit``                                                      |
| messages     | cancel, hold, release, resend; requeue and remove; drain            |
| trace        | ``msg.trace``, over all parties                                     |
| legacy       | documents of a receiver from before the import of an older SEMQ     |
| failed       | list, show and park failed documents                                |
| certificates | the node's own certificate                                          |
"""
