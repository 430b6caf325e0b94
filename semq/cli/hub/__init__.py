"""Commands on a hub.

| module       | contents                                                                |
|--------------|-------------------------------------------------------------------------|
| institutions | ``hub init-ca|instances|health|nodes|stores``                           |
| authority    | ``hub ca show|roll|leave``                                              |
| held_copies  | ``held list|count|refuse|resend``                                       |
| definitions  | ``definitions export|diff|import``                                      |
"""
