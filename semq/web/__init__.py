"""Floor 5: the web process beside a node: sign-in, sessions, roles, audit, and the HTTP API.

| room                                   | subject                                                              |
|----------------------------------------|----------------------------------------------------------------------|
| process, services                      | the process: what it is made of, how it starts and ends              |
| server, connection                     | HTTP on sockets: limits of heads, pauses, connections; TLS           |
| application, mounts, response_headers  | the routes of all parts, errors as pages or problems, security headers |
| visitor, sessions, sign_in, csrf       | who is there: sessions, the first link, forms                        |
| visit, templates, languages            | what a page works with: role, operations, rendering                  |
| operations, audit                      | operations of the node by role; a line for every act                 |
| database, limits, snapshots            | the node's database; rates; answers shared by several viewers        |
| event_stream                           | server-sent events                                                   |

It uses the node by AMQP as any application, and reads the node's database for pages that no operation serves. Messages
do not depend on it: a slow page delays no commit. ``semq.console`` has the pages.
"""
