"""Files of an editor over the protocol: requests, failures and silence."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ludolf.acp.editor import READ_FILE, WRITE_FILE, EditorFiles
from ludolf.base import LudolfError
from ludolf.base.jsonrpc import RpcFault

_BOTH = (READ_FILE, WRITE_FILE)


class Editing:
    """A client that gives one answer, or an error, or none."""

    def __init__(self, folder: Path, answer: Any, offered: tuple[str, ...] = _BOTH) -> None:
        self._answer = answer
        self.requests: list[tuple[str, Mapping[str, Any]]] = []
        self.reports: list[str] = []
        self.file = folder / "a.txt"
        self.file.write_text("on disk")
        self.files = EditorFiles(
            "s1", offered, self._request, folder, self.reports.append, seconds=0.001
        )

    async def _request(self, method: str, params: Mapping[str, Any]) -> Any:
        self.requests.append((method, params))
        if self._answer is asyncio:
            await asyncio.Event().wait()
        if isinstance(self._answer, LudolfError):
            raise self._answer
        return self._answer


async def test_text_is_read_and_written_by_requests(tmp_path: Path) -> None:
    client = Editing(tmp_path, {"content": "not saved"})
    assert await client.files.read(client.file) == "not saved"
    assert await client.files.write(client.file, "new")
    about = {"sessionId": "s1", "path": str(client.file)}
    assert client.requests == [(READ_FILE, about), (WRITE_FILE, {**about, "content": "new"})]
    assert client.reports == []


async def test_an_empty_answer_to_a_write_is_enough(tmp_path: Path) -> None:
    assert await Editing(tmp_path, None).files.write(tmp_path / "a.txt", "new")


@pytest.mark.parametrize("offered", [(), (READ_FILE,), (WRITE_FILE,)])
async def test_only_methods_that_the_client_offers_are_called(
    tmp_path: Path, offered: tuple[str, ...]
) -> None:
    client = Editing(tmp_path, {"content": "x"}, offered)
    await client.files.read(client.file)
    await client.files.write(client.file, "new")
    assert tuple(method for method, _ in client.requests) == offered


async def test_paths_outside_the_folder_are_not_asked_about(tmp_path: Path) -> None:
    client = Editing(tmp_path, {"content": "x"})
    assert await client.files.read(tmp_path.parent / "b.txt") is None
    assert client.requests == []


@pytest.mark.parametrize("answer", [None, [], {"content": 1}, RpcFault(-32603, "no"), asyncio])
async def test_failures_and_silence_lead_to_the_disk_and_are_reported_once(
    tmp_path: Path, answer: Any
) -> None:
    client = Editing(tmp_path, answer)
    assert await client.files.read(client.file) is None
    assert await client.files.read(client.file) is None
    (text,) = client.reports
    assert text.startswith("The editor failed in fs/read_text_file for a.txt: ")


async def test_a_file_that_does_not_exist_is_not_a_failure(tmp_path: Path) -> None:
    for fault in (RpcFault(-32002, "Not found"), RpcFault(-32603, "No such file")):
        client = Editing(tmp_path, fault)
        assert await client.files.read(tmp_path / "missing.txt") is None
        assert client.reports == []


async def test_an_editor_that_stays_silent_is_not_asked_for_ever(tmp_path: Path) -> None:
    client = Editing(tmp_path, asyncio)
    for _ in range(5):
        assert not await client.files.write(client.file, "new")
    assert len(client.requests) == 2
