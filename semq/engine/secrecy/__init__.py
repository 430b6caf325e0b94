"""Secrecy and proof in the engine; the cryptography is in ``semq.seal``.

| module    | subject                                                                   |
|-----------|---------------------------------------------------------------------------|
| binding   | which attributes the seal of a document binds                             |
| sealing   | session keys, sealing, opening, signing, and whether a statement counts   |
| testimony | the check of each packet at a local node: source, addressee, message      |
"""
