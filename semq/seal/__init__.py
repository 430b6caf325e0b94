"""Secrecy and proof: sealed payloads, receipts that anyone can verify, a tamper-evident ledger, secrets at rest.

Pure: time and random bytes are passed in, except those that the cryptography library draws for a key agreement or a
signature. Used by the engine through its ports, by the store for the chain of the ledger, and by nodes and the command
line for proofs. Works on keys and bytes, not on messages: the engine decides which facts a seal binds.

| look for                                       | in              |
|------------------------------------------------|-----------------|
| one encoding for everything that is bound      | ``canonical``   |
| key ids, wrapping, signing by kind of key      | ``keys``        |
| the content of @SessionKey                     | ``token``       |
| a session key at its sender: nonces, lifetime  | ``session``     |
| session keys that this node has opened         | ``opened``      |
| signed documents, many under one signature     | ``origin``      |
| signed receipts, many under one signature      | ``receipts``    |
| the file that proves a delivery                | ``proof``       |
| older keys that sign a newer certificate       | ``voucher``     |
| the chain of the ledger                        | ``chain``       |
| secrets at rest                                | ``vault``       |
"""
