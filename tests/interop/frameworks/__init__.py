"""Workloads of Python frameworks, in an environment of their own; ``__main__`` runs them on a node."""
