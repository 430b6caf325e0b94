"""One queue and its messages.

``queue``, the order of delivery (``ready``), the turns of ``consumers``, messages with their entries, bodies
that are not in memory (``pages``, ``bodies``), and the headers of a message after it died (``deadletter``).
"""
