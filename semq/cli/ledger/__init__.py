"""Commands on ledgers.

| module         | contents                        |
|----------------|---------------------------------|
| proofs         | ``verify``, ``ledger verify``   |
| reconciliation | ``reconcile``                   |
"""
