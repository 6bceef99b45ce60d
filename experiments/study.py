"""All tables and figures about curricula: `python -m experiments.study --preset nano`.

Prints its plan first: which runs are needed, which are shared or in the store already, and about how long the missing
ones take. Stopped at any point, it continues where it was.
"""

import sys

from experiments import errors, figure9, table2, table5, table14
from experiments.studies import command

RESULTS = {"table2": table2, "table5": table5, "table14": table14, "figure9": figure9, "errors": errors}

if __name__ == "__main__":
    try:
        command(**RESULTS)
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; run it again to continue")
