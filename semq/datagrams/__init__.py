"""Datagrams: the channel over UDP for documents with ``@Reliable=0``, beside a link that both ends have authenticated.

The end that listens offers a channel over the link: address, connection id, secret. PROTOCOL.md section 25.

| module     | contents                                                                   |
|------------|----------------------------------------------------------------------------|
| `cipher`   | keys of the two directions; a datagram as bytes, sealed and opened         |
| `replay`   | the window that lets each sequence number pass once                        |
| `path`     | whether datagrams pass, and of what size: probes and their answers         |
| `channel`  | one connection id: cipher, window, path, numbers of documents              |
| `document` | a document in a datagram                                                   |
| `rate`     | the rate of a session, which follows the loss that the other end reports   |
| `recent`   | the loss of the last minutes                                               |
| `counts`   | figures of the datagrams of one peer                                       |
| `session`  | the channels of one link, in turn; used by both kinds of nodes             |
| `port`     | the socket, and the sessions whose datagrams it carries                    |

Only `port` uses sockets; the other modules get time as an argument.
"""
