"""Floor 3: what a node does. Send, relay, receive, ask, clean: one synchronous engine over a store and links.

``local`` is the engine of an institution's node, ``hub`` that of the platform; both are put together from the same
parts. The engine has no clock, no sockets and no tasks of its own: it is told what was heard and that time has passed,
it posts work to its store, and after each commit it sends frames. So the simulator runs the very same code.
"""
