"""Secrecy and proof in the engine; the cryptography is in ``semq.seal``.

| module    | subject                                                                   |
|-----------|---------------------------------------------------------------------------|
| binding   | the attributes that a document's seal and its signature cover             |
| sealing   | session keys, sealing, opening, signing, and checks of signatures         |
| testimony | the check of each packet at a local node: source, addressee, message      |
"""
