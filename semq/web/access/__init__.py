"""Authentication of visitors, and their rights.

| module              | subject                                                                      |
|---------------------|------------------------------------------------------------------------------|
| visitor             | a person or a program with its rights                                        |
| sign_in, sessions   | sign-in by the one-time link or a password; sessions and their cookies       |
| oidc, oidc_sign_in  | sign-in through an OpenID Connect provider (optional)                        |
| tokens              | bearer tokens of programs                                                    |
| node_login          | passwords that the node itself checks                                        |
| secret              | random secrets and their hashes                                              |
| csrf                | protection against forms of other sites                                      |
| limits              | rates of requests, and of failed sign-ins                                    |
"""
