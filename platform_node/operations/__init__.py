"""Operations of the hub, besides those in ``semq.service.operations``.

| module       | operations                                                          |
|--------------|---------------------------------------------------------------------|
| table        | all of them, as rows                                                |
| held         | stored copies: list, count, refuse, resend                          |
| registration | institutions, tokens, certificates                                  |
| definitions  | export, diff, import                                                |
| stores       | the hub's stores                                                    |
"""
