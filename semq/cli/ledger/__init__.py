"""Commands on ledgers: ``proofs`` has ``ledger verify`` and ``verify``, ``reconciliation`` has ``reconcile``."""
