"""Datagrams beside the links of a node: for documents with ``@Reliable=0`` (PROTOCOL.md section 25).

| module     | contents                                                                        |
|------------|---------------------------------------------------------------------------------|
| `link`     | the datagrams of one link: frames in and out, records as packets of the link    |
| `ends`     | the listening end, which offers channels, and the dialling end, which uses them |
"""
