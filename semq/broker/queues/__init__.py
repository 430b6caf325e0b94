"""One queue and its messages.

``queue`` with its ``entry`` values, the order of delivery (``ready``), the turns of ``consumers``, messages and bodies
that are not in memory (``pages``, ``bodies``), one ``message``, and its headers after it died (``deadletter``).
"""
