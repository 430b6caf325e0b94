"""Floor 5: the web process beside a node: sign-in, sessions, roles, audit, and the HTTP API.

| room                    | subject                                                                             |
|-------------------------|-------------------------------------------------------------------------------------|
| process, services       | the process: what it is made of, how it starts and ends                             |
| application, mounts     | the routes of all parts, and answers to what no route serves                        |
| own_routes, errors      | the pages and forms of this package as rows; its errors                             |
| transport               | HTTP on sockets: connections, bodies, security headers, event streams, errors       |
| access                  | who is there and may do what: sign-in, sessions, tokens, passwords, forms, rates    |
| node                    | what the node gives: operations, database, audit log, figures and health            |
| pages                   | what a page works with: visit, templates, languages; users and tokens               |
| api                     | the HTTP API                                                                        |

It uses the node by AMQP as any application, and reads the node's database for pages that no operation serves. Messages
do not depend on it: a slow page delays no commit. ``semq.console`` has the pages of operators.
"""
