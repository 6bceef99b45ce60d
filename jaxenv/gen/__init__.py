"""Building blocks of generators: masked choices, paths, trees, graphs. Bounded loops, no rejection."""
