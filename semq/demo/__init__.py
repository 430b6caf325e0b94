"""The demo: a hub and two institutions as processes on this machine, and documents sent between them.

``./run demo`` runs ``python -m semq.demo``. ``scenario`` is the sequence of steps, ``options`` its command line,
``configuration`` describes the installation. ``files`` reads the documents to send, ``applications`` sends and receives
as any application does; ``tracker`` keeps the state of each document, ``display`` shows it. ``counts`` computes the
result, and ``reconciliation`` compares the ledgers.
"""
