"""Flows of documents through whole nodes, mostly over memory stores and an in-memory wire.

`trio` is the hub and two institutions in one process, `several` a trio whose hub has several instances, `sealed` a trio
with certificates, `lying` the attacks of a hostile hub on it. `by_hand` plays one end of a real link, `losing` is a
proxy on a real link.

Folders: `order` of documents, `custody` of the hub, `distrust` of peers, `secrecy`, and `real_nodes`, in processes or
over real databases.
"""
