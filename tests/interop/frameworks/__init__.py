"""Frameworks for Python, in an environment of their own; ``__main__`` runs their programs.

``*_workload.py`` are ordinary programs of a framework on one node; ``*_application.py`` send documents from one
institution to another.
"""
