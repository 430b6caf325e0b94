"""Operations of a local node, besides those in ``semq.service.operations``.

| module       | operations                                                          |
|--------------|---------------------------------------------------------------------|
| table        | all of them, as rows                                                |
| submission   | ``msg.submit``                                                      |
| messages     | cancel, hold, release, resend; requeue and remove; drain            |
| trace        | ``msg.trace``, over all parties                                     |
| legacy       | what a receiver had before the import from an older SEMQ            |
| failed       | list, show and park failed documents                                |
| certificates | the node's own certificate                                          |
"""
