"""Tests of the sandbox skip, with the reason, where it cannot work."""

import pytest

from curriculum.evolution.sandbox import SandboxUnavailable, available


@pytest.fixture(scope="session")
def sandboxed():
    try:
        available()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
