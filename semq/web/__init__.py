"""Floor 5: the web process beside a node: sign-in, sessions, roles, audit, and the HTTP API.

| part                    | subject                                                                             |
|-------------------------|-------------------------------------------------------------------------------------|
| process, services       | start and end of the process; its services in one object                            |
| application, mounts     | the routes of all parts of the site; answers to requests without a route            |
| own_routes, errors      | the routes of the pages and forms of this package; its errors                       |
| transport               | HTTP on sockets: connections, bodies, security headers, event streams, errors       |
| access                  | authentication and rights: sign-in, sessions, tokens, passwords, forms, rates       |
| node                    | interfaces to the node: operations, database, audit log, figures and health         |
| pages                   | visits, templates and languages of all pages; pages of users and tokens             |
| api                     | the HTTP API                                                                        |

The node starts this process (``semq.service.companion``). The process uses the node over AMQP, as applications do.
Users, sessions, tokens and the audit log are in the node's database. ``semq.console`` has the pages of operators.
"""
