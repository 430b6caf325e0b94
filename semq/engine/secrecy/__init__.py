"""Secrecy and proof in the engine; the cryptography is in ``semq.seal``.

| module    | subject                                                                   |
|-----------|---------------------------------------------------------------------------|
| binding   | which attributes the seal of a document binds                             |
| sealing   | session keys, sealing, opening, signing, and whether a statement counts   |
| testimony | the one door for packets at a local node: who may say what, about what    |
"""
