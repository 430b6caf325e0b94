"""One file a revision, in order of their numbers; what has been released is never changed."""
