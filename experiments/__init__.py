"""Experiments: one script per question, `python -m experiments.NAME`."""
