"""Whole nodes over memory stores and an in-memory wire: the engine by its flows and by its parts.

`trio` has hub and two institutions in one process, `sealed` the same with certificates, `lying` a hostile hub.
`by_hand` and `losing` take part in real links. Rooms: `order` of documents, `custody` of the hub, `distrust` of peers,
`secrecy`, and `real_nodes` left alone.
"""
