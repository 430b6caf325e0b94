"""One queue and its messages.

``queue`` with its ``entry`` values, the order of delivery (``ready``), the turns of ``consumers``, what is out of
memory (``pages``, ``bodies``), one ``message``, and what is added to it after it died (``deadletter``).
"""
