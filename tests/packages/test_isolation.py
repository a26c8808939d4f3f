"""Packages of others are tried without a way to other machines. Part of `make test-packages`."""

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not os.environ.get("LUDOLF_TEST_PACKAGES"), reason="LUDOLF_TEST_PACKAGES names no folder"
)


def test_only_loopback_is_there() -> None:
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    assert [line.partition(":")[0].strip() for line in lines] == ["lo"]
