"""Flows of documents through whole nodes, mostly over memory stores and an in-memory wire.

`trio` has the hub and two institutions in one process, `several` the same with several instances of the hub, `sealed`
the same with certificates, `lying` a hostile hub. `by_hand` plays one end of a real link, `losing` is a proxy on a real
link. Rooms: `order` of documents, `custody` of the hub, `distrust` of peers, `secrecy`, and `real_nodes`, as processes
or over real databases.
"""
