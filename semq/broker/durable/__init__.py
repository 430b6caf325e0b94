"""Durability: what survives the process.

``journal`` passes operations to the store, ``unwritten`` keeps them while it is unavailable, ``restoration`` rebuilds
the virtual hosts, ``no_store`` is used where there is no disk.
"""
