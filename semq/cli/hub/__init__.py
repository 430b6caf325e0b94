"""Commands at the hub.

| module       | contents                                                                |
|--------------|-------------------------------------------------------------------------|
| institutions | ``hub``: authority, tokens for enrolment, stores                        |
| held_copies  | ``held list|count|refuse|resend``                                       |
| definitions  | ``definitions export|diff|import``                                      |
"""
