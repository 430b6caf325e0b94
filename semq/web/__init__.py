"""Floor 5: the web process beside a node: sign-in, sessions, roles, audit, and the HTTP API.

| room                    | subject                                                                             |
|-------------------------|-------------------------------------------------------------------------------------|
| process, services       | the process: its parts, start and end                                               |
| application, mounts     | the routes of all parts, and answers to what no route serves                        |
| own_routes, errors      | the pages and forms of this package as rows; its errors                             |
| transport               | HTTP on sockets: connections, bodies, security headers, event streams, errors       |
| access                  | authentication and rights: sign-in, sessions, tokens, passwords, forms, rates       |
| node                    | interfaces to the node: operations, database, audit log, figures and health         |
| pages                   | the tools of pages: visit, templates, languages; pages of users and tokens          |
| api                     | the HTTP API                                                                        |

It uses the node by AMQP as any application, and reads the node's database for pages that no operation serves. Messages
do not depend on it: a slow page delays no commit. ``semq.console`` has the pages of operators.
"""
