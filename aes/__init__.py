"""Ability-aware environment selection: from trajectories to a training set (paper Section 3)."""
