"""One file for each revision, numbered in their order. Released revisions are never changed."""
