"""One module for each revision, numbered in their order; long SQL is in files of the same number.

Released revisions are never changed.
"""
