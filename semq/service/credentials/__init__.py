"""Keys and certificates of a running node. The files and the cryptography are in ``semq.pki`` and ``semq.seal``.

| module   | subject                                                               |
|----------|-----------------------------------------------------------------------|
| identity | certificate and its lifetime, trusted authorities, TLS contexts       |
| keyring  | the node's private keys, and the trusted certificates of partners     |
| files    | files that a configuration names: their ends and faults               |
| passwords | hashes of the passwords of persons                                   |
| secrecy  | sealing and signing, built from identity, keyring and configuration   |
"""
