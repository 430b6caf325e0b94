"""An installation on this machine: a hub and institutions as processes, each with its own embedded Postgres.

``configuration`` writes the files of the nodes, ``process`` starts and stops one node, ``supervision`` starts it again
when it dies, ``enrolment`` gets its first certificate. The demo, the tests of processes, the crash campaigns and the
benchmarks use them; each passes the settings that only its nodes have.
"""
