"""The demo: a hub and two institutions as processes on this machine, and documents sent between them.

``./run demo`` runs ``python -m semq.demo``. ``scenario`` is the sequence of steps, ``options`` its command line.
``files`` reads the documents to send, ``configuration`` writes the files of the three nodes, ``process`` starts,
restarts and stops them. ``applications`` sends to and receives from the nodes through ``semq.app``, as any application
does; ``tracker`` keeps the state of each document, ``display`` shows it. ``counts`` computes the result, and
``reconciliation`` compares the ledgers.
"""
