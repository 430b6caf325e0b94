"""Datagrams: the channel over UDP for documents with ``@Reliable=0``, beside a link that both ends have authenticated.

The end that listens offers a channel over the link (PROTOCOL.md section 25). Only `port` uses sockets.

| module     | contents                                                                     |
|------------|------------------------------------------------------------------------------|
| `cipher`   | keys of the two directions; a datagram as bytes, sealed and opened           |
| `replay`   | the window that lets each sequence number pass once                          |
| `path`     | probes and answers, which show whether datagrams pass, and up to what size   |
| `channel`  | one connection id: cipher, window, path, numbers of documents                |
| `document` | a document in a datagram                                                     |
| `rate`     | the rate of a session, which follows the loss that the other end reports     |
| `recent`   | the loss of the last minutes                                                 |
| `counts`   | figures of the datagrams of one peer                                         |
| `session`  | the channels of one link, one after the other                                |
| `port`     | the socket, and the sessions whose datagrams it carries                      |
| `errors`   | the error of an address that cannot be used                                  |
"""
