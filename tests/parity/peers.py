"""Imports of the packages that environments are compared with; a test module is skipped where one is absent."""

import warnings

import pytest


def peer(name: str):
    """The package, without its import warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is absent: pip install -r requirements-parity.txt")
