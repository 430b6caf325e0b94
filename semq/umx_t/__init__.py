"""UMX-T, the transport layer of UMX: identities, attributes, records and the status grids. Floor 0: pure values only.

Start with ``grids`` (what a node does on each event), then ``envelope`` (the attributes of a message), ``records`` (the
810 and 809 records) and ``locator`` (LK0, LK1). The engine, on floor 3, acts on what is decided here.
"""
