"""All tables and figures about environment sets: `python -m experiments.aes_study --preset nano`.

Prints its plan first: which runs are needed, which are shared or in the store already, and about how long the missing
ones take. Stopped at any point, it continues where it was. Figures 6 and 8 are those of `python -m aes.report`.
"""

from experiments import figure3, figure4, table1, table3, table10
from experiments.aes_studies import command

RESULTS = {"figure4": figure4, "table1": table1, "figure3": figure3, "table3": table3, "table10": table10}

if __name__ == "__main__":
    command(**RESULTS)
