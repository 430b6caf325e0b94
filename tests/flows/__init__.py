"""Flows of documents through whole nodes, mostly over memory stores and an in-memory wire.

`trio` is the hub and two institutions in one process, `several` a trio whose hub has several instances, `sealed` a trio
with certificates, `lying` has attacks of its hub. `by_hand` plays one end of a real link, `losing` is a proxy on a real
link.

Folders: `order` (the order of documents, and turns of their sources), `custody` (copies that the hub stores),
`distrust` (false statements of peers), `secrecy` (seals, proofs, changes of keys), and `real_nodes` (nodes in processes
or over real databases).
"""
