"""Operations of ``semq.admin`` that both kinds of nodes have.

| module   | operations                                                           |
|----------|----------------------------------------------------------------------|
| messages | lists, one message, its trace, counts, what is stuck and why         |
| broker   | queues, consumers, connections, channels, exchanges, bindings        |
| inquiry  | ``msg.inquire``                                                      |
| proofs   | ``msg.prove``, ``ledger.verify``                                     |
| reload   | ``node.reload``                                                      |
| trust    | ``cert.trust``                                                       |
"""
