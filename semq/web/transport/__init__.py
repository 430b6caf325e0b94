"""HTTP on sockets: connections and their limits, bodies in bounded memory, headers, event streams, errors.

| module                   | subject                                                                  |
|--------------------------|--------------------------------------------------------------------------|
| server, connection       | the listening socket, TLS; limits for heads, pauses and connections      |
| bodies, spooling         | bodies in bounded memory; large bodies of requests in files              |
| ranges                   | requests for some bytes of a body                                        |
| hosts                    | the host names that requests may use                                     |
| response_headers         | what a browser may do with an answer                                     |
| event_stream, streams    | server-sent events; the limit of open streams and long polls per visitor |
| failures                 | errors as pages or problem documents                                     |
"""
