"""What survives the process.

``journal`` hands operations to the store, ``unwritten`` keeps them while it is away, ``restore`` makes the virtual
hosts again, ``memory_store`` stands in where there is no disk.
"""
