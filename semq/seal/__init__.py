"""Secrecy and proof: sealed payloads, receipts that anyone can verify, a tamper-evident ledger, bodies at rest.

Pure: time and random bytes are arguments, except those that the cryptography library draws for a key agreement or a
signature. The modules work on keys and bytes, not on messages: the engine decides which facts a seal binds.

| module                | subject                                                 |
|-----------------------|---------------------------------------------------------|
| ``canonical``         | the encoding of all data that a seal or signature binds |
| ``keys``              | key ids, wrapping and signing by kind of key            |
| ``token``             | the content of @SessionKey                              |
| ``session``           | a session key at its sender: nonces, lifetime           |
| ``opened``            | session keys that this node has unwrapped               |
| ``origin``            | signed documents, many under one signature              |
| ``receipts``          | signed receipts, many under one signature               |
| ``proof``             | the file that proves a delivery                         |
| ``voucher``           | signatures by older keys under a newer certificate      |
| ``chain``             | the chain of the ledger                                 |
| ``vault``             | bodies at rest                                          |
| ``webhook_signature`` | signatures of requests to webhooks                      |
| ``errors``            | SEMQ-5200 to SEMQ-5299                                  |
"""
