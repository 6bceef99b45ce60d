"""Skill nodes, one file each, found by file name; each offers `NODE`. See `curriculum.evolution.pipeline`."""
