"""Building blocks of oracles: distance fields, traversals, determinants. Jittable, bounded."""
