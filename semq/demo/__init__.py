"""The demo: a hub and two institutions as processes on this machine, and documents sent between them.

``./run demo`` runs ``__main__``, the command line. ``scenario`` is the sequence of steps, ``configuration`` describes
the installation. ``tracker`` reads the documents, keeps the state of each and counts at the end, ``display`` prints,
and ``reconciliation`` compares the ledgers.
"""
