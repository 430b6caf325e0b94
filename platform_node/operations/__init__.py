"""Operations of the hub, in addition to those in ``semq.service.operations``.

| module       | operations                                                          |
|--------------|---------------------------------------------------------------------|
| table        | the table of all operations                                         |
| held         | stored copies: list, count, refuse, resend                          |
| registration | institutions, tokens, certificates                                  |
| authority    | the change of the hub's authority: show, begin, exclude nodes       |
| definitions  | export, diff, import                                                |
| stores       | the hub's stores: list, add, move and balance homes, retire         |
| instances    | the instances of the hub: list, check                               |
"""
