"""One file per revision, in order of their numbers; released revisions are never changed."""
