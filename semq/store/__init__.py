"""Floor 1: Postgres. Knows rows and statuses, not sockets, and never what a message means.

``rows`` says what the tables hold, ``unit`` what one transaction sees and changes, ``writer`` commits many pieces of
work as one, ``memory`` is the second implementation, in which the simulator runs whole nodes. ``embedded`` starts a
Postgres of the node's own."""
