"""Keys and certificates of a running node. The files and the cryptography are in ``semq.pki`` and ``semq.seal``.

| module   | subject                                                               |
|----------|-----------------------------------------------------------------------|
| identity | key ring, trusted authorities, TLS contexts and their lifetimes       |
| keyring  | the node's private keys, and the certificates of partners it believes |
| secrecy  | sealing and signing, made of the two and the configuration            |
"""
