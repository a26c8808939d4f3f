"""Workers on Ray, as far as they need no cluster: the actor, its files, the errors of the host."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from ludolf.base import ConfigError, dumps
from ludolf.fleet.folder import open_folder
from ludolf.fleet.gate import RateGate
from ludolf.fleet.orders import FleetSetup, ItemOrder
from ludolf.fleet.pipes import (
    GateEntered,
    GateOpened,
    ItemFinished,
    PrepareWorker,
    StartItem,
    ToDriver,
    ToWorker,
    WorkerReady,
)
from ludolf.fleet.ray import RayHost, store_files
from ludolf.fleet.ray_actor import ItemFiles, RayWorkerActor
from ludolf.fleet.ray_bridge import sent_environment
from ludolf.fleet.worker_hosts import ray_address

_decoder: msgspec.json.Decoder[ToDriver | ItemFiles] = msgspec.json.Decoder(ToDriver | ItemFiles)
ORDER = ItemOrder(id="a", folder="a", item={"id": "a"}, prompt="say pear", attempt=1)


def line(message: ToWorker) -> bytes:
    return dumps(message) + b"\n"


async def messages(actor: RayWorkerActor) -> AsyncIterator[ToDriver | ItemFiles]:
    """What the worker sends; each answer is asked for twice, as after a lost connection."""
    number = 0
    while (data := await actor.take(number)) is not None:
        number += 1
        assert await actor.take(number - 1) == data
        for each in data.splitlines():
            yield _decoder.decode(each)


async def test_a_node_without_the_folder_of_the_batch_sends_the_files_of_its_items(
    tmp_path: Path,
) -> None:
    home, items = tmp_path / "home", tmp_path / "items"
    home.mkdir()
    items.mkdir()
    setup = FleetSetup(
        start=str(tmp_path / "missing"),
        out=str(tmp_path / "elsewhere"),
        name="batch",
        choices={"model": "ludolf/offline", "sandbox": "off"},
    )
    actor = RayWorkerActor()
    environ = {"HOME": str(home), "TMPDIR": str(tmp_path)}
    await actor.open(line(PrepareWorker(setup=setup)), str(tmp_path / "marker"), environ)
    finished: list[ItemFinished] = []
    async for message in messages(actor):
        if isinstance(message, WorkerReady):
            assert message.problem is None
            for _ in range(2):
                await actor.post(1, line(StartItem(order=ORDER)))
        elif isinstance(message, GateEntered):
            await actor.post(2, line(GateOpened(number=message.number)))
        elif isinstance(message, ItemFiles):
            assert not finished
            store_files(items, message)
        elif isinstance(message, ItemFinished):
            finished.append(message)
            await actor.post(3, b"")
    (done,) = finished
    assert (done.id, done.status) == ("a", "ok")
    result = msgspec.json.decode(done.line)
    assert (items / Path(result["session"]).relative_to("items")).stat().st_size > 0
    assert await actor.take(0) is not None
    assert await actor.ping()


def test_files_of_a_node_stay_in_the_folder_of_their_item(tmp_path: Path) -> None:
    items = tmp_path / "items"
    items.mkdir()
    files = {"patch.diff": b"+", "../up": b"x", "/etc/x": b"x", "..": b"x", "": b"x", "a\0b": b"x"}
    store_files(items, ItemFiles(folder="a", files=files))
    for folder in ("..", "", ".", "a/../..", "/"):
        store_files(items, ItemFiles(folder=folder, files={"new": b"x"}))
    assert sorted(os.listdir(tmp_path)) == ["items"]
    assert [str(path.relative_to(items)) for path in items.rglob("*")] == ["a", "a/patch.diff"]


def test_only_keys_and_settings_of_ludolf_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "LUDOLF_X", "SSH_AUTH_SOCK"):
        monkeypatch.setenv(name, name)
    sent = sent_environment()
    assert {"ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "LUDOLF_X"} <= set(sent)
    assert not {"SSH_AUTH_SOCK", "PATH", "HOME"} & set(sent)


@pytest.mark.parametrize(
    ("on", "address"),
    [("ray", "auto"), ("ray:10.0.0.1:6379", "10.0.0.1:6379"), ("ray://h:10001", "ray://h:10001")],
)
def test_an_engine_names_the_address_of_its_cluster(on: str, address: str) -> None:
    assert ray_address(on) == address


@pytest.mark.parametrize("on", ["", "dask", "ray:", "rays:1"])
def test_unknown_engines_are_refused(on: str) -> None:
    with pytest.raises(ConfigError, match="--on takes ray, ray:HOST:PORT or ray://HOST:PORT"):
        ray_address(on)


async def test_without_ray_the_error_says_how_to_install_it(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "out", {})
    host = RayHost("auto", folder, RateGate())
    try:
        with pytest.raises(ConfigError, match=r"pip install 'ludolf\[ray\]'"):
            await host.start_worker()
    finally:
        await host.close()
        folder.close()
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name[0] == "."] == []
