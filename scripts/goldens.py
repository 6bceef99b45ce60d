"""Rewrite tests/golden/every_env.json: `python scripts/goldens.py [env_id ...]`. A reviewed act: look at `make gallery` first."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import conftest  # noqa: E402, F401  (the same JAX settings as the tests)
from tour import golden, tour  # noqa: E402

import jaxenv  # noqa: E402

if __name__ == "__main__":
    path = ROOT / "tests" / "golden" / "every_env.json"
    goldens = json.loads(path.read_text()) if path.exists() else {}
    for env_id in sys.argv[1:] or jaxenv.ids():
        goldens[env_id] = golden(tour(env_id))
    path.write_text(json.dumps(goldens, indent=1, sort_keys=True) + "\n")
