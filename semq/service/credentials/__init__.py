"""Keys and certificates of a running node. The files and the cryptography are in ``semq.pki`` and ``semq.seal``.

| module   | subject                                                               |
|----------|-----------------------------------------------------------------------|
| identity | key ring, trusted authorities, TLS contexts and their lifetimes       |
| keyring  | the node's private keys, and the trusted certificates of partners     |
| secrecy  | sealing and signing, built from both and the configuration            |
"""
