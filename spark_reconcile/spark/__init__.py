"""Spark: the session of a run, and the Java below it.

| module        | subject                                    |
|---------------|--------------------------------------------|
| session       | the Spark session                          |
| java          | the Java that runs Spark                   |
| processes     | the Java processes of a local session      |
| class_archive | the archive of Java classes, made at setup |
"""
