"""The demo: a hub and two institutions as processes on this machine, and documents sent between them.

``./run demo`` runs ``python -m semq.demo``. ``scenario`` is the sequence of steps, ``options`` its command line,
``configuration`` describes the installation. ``tracker`` reads the documents, keeps the state of each and counts at the
end, ``display`` prints, and ``reconciliation`` compares the ledgers.
"""
