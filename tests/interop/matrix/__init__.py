"""What clients of other projects send and show, between two nodes: ``python -m tests.interop.matrix`` writes
docs/applications/values.md.

| module       | contents                                                                  |
|--------------|---------------------------------------------------------------------------|
| values       | the values that are sent, and the encoded values that are received        |
| installation | pinned clients in a temporary folder, and those of Debian                 |
| programs     | running the programs of ``clients``                                       |
| doors        | the same by SEMQ's own interfaces                                         |
| page         | the tables as text                                                        |

Not a test: it installs clients from PyPI, npm and Debian, and takes some minutes.
"""
