"""Secrecy and proof: payloads sealed between institutions, receipts that anybody can verify, a ledger that shows any
change, secrets at rest.

Pure: time and chance come in as arguments (what a key agreement or a signature draws is drawn inside the cryptography
library). Used by the engine through its ports, by the store for the chain of the ledger, by nodes and the command line
for proofs. Knows keys and octets, not messages: the engine says which facts a seal binds.

| look for                                       | in              |
|------------------------------------------------|-----------------|
| one encoding for everything that is bound      | ``canonical``   |
| key ids, wrapping, signing by kind of key      | ``keys``        |
| what stands in @SessionKey                     | ``token``       |
| a session key at its sender: nonces, its end   | ``session``     |
| session keys that this node has opened         | ``opened``      |
| signed receipts, many under one signature      | ``receipts``    |
| the file that proves a delivery                | ``proof``       |
| the chain of the ledger                        | ``chain``       |
| secrets at rest                                | ``vault``       |
"""
