"""A short soak in every run of the tests; `make soak` is the long one."""

from pathlib import Path

import pytest

from tests.soak.soak import soak

COMMANDS = 250


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
async def test_hundreds_of_commands_among_faults_lose_nothing_and_leave_nothing(
    tmp_path: Path, seed: int
) -> None:
    result = await soak(tmp_path, seed, COMMANDS)
    assert result.trouble == []
    assert result.commands >= COMMANDS
    assert result.answered
    assert result.messages
