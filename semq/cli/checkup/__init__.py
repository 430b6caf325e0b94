"""What ``semq doctor`` looks at: one module for each thing that a node stands on, from the ground up.

    ground     configuration file, data folder, free space
    database   reach, durability, tables, clock, connections
    identity   keys, certificate, the authority behind it
    way        from here to the hub: name, port, TLS, who answers there
    running    the node itself: who answers on its port, its health, what is stuck

Looking changes nothing: no server is started, no table brought up to date, no key made. Each function gives findings
and raises nothing; what it cannot look at is a finding too.
"""
