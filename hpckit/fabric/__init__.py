"""The cluster's network: topology, rails, rules, and the files that describe it."""
