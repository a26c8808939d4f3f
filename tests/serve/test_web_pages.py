"""The page over plain HTTP: what it may do, and the sessions that it asks for."""

import json
import re
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from ludolf.config.settings.options import Options
from ludolf.page.live.watch import read_mark
from tests.browser.sample import sample_lines
from tests.serve.web_stage import WebStage, served

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
VISIT = {
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}
STORED = "01a1de9f-9cab-7efa-b31e-8da852142bab"


async def _ask(stage: WebStage, path: str) -> tuple[int, dict[str, Any]]:
    async with stage.web.get(stage.url + path, headers=stage.bearer) as answer:
        found = DATA.search(await answer.text())
        return answer.status, json.loads(found[1]) if found is not None else {}


def _stage(folder: Path, **chosen: Any) -> AbstractAsyncContextManager[WebStage]:
    options = Options(
        cwd=folder / "work",
        model="ludolf/offline",
        no_context_files=True,
        agent_dir=folder / "agent",
    )
    return served(folder, options=options, **chosen)


def _store(folder: Path, cwd: Path) -> Path:
    """A stored session that works in a folder; gives its file."""
    first, *rest = sample_lines()
    target = folder / "agent" / "sessions" / "some" / f"2026-11-16T08-00-00-000Z_{STORED}.jsonl"
    target.parent.mkdir(parents=True)
    lines = ({**first, "cwd": str(cwd)}, *rest)
    target.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target


async def test_the_page_is_small_holds_no_data_and_allows_only_itself(tmp_path: Path) -> None:
    async with served(tmp_path) as stage, stage.web.get(stage.url + "/", headers=VISIT) as answer:
        page = await answer.text()
        policy = answer.headers["Content-Security-Policy"]
        assert answer.status == 200
        assert len(page) < 200_000
        assert stage.token not in page
        assert "unsafe" not in policy and "http" not in policy
        for rule in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"):
            assert rule in policy.split("; ")
        assert page.count("<script") == 2 and page.count("<style") == 1
        for dest in ("iframe", "script"):
            assert await stage.status("/", headers={**VISIT, "Sec-Fetch-Dest": dest}) == 403
        assert await stage.status("/healthz", headers=VISIT) == 403


async def test_entries_of_a_stored_session_are_read_without_loading_it(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        file = _store(tmp_path, tmp_path / "work")
        status, page = await _ask(stage, f"/sessions/{STORED}/page")
        assert (status, page["from"], len(page["ids"])) == (200, 0, len(sample_lines()) - 1)
        assert len(stage.server.slots) == 0
        last = sample_lines()[-1]
        added = {"type": "session_info", "id": "new", "parentId": last["id"], "name": "Renamed"}
        with file.open("a") as lines:
            lines.write(json.dumps({**added, "timestamp": last["timestamp"]}) + "\n")
        _, news = await _ask(stage, f"/sessions/{STORED}/news?after={page['mark']}")
        assert (news["ids"], news["from"]) == (["new"], len(page["ids"]))
        # The marks of a page stay valid when the session is loaded.
        reply = await stage.post({"type": "get_state", "session": STORED})
        assert reply["success"], reply
        assert len(stage.server.slots) == 1
        status, later = await _ask(stage, f"/sessions/{STORED}/news?after={news['mark']}")
        assert (status, later["ids"]) == (200, [])


async def test_the_leaf_of_a_loaded_session_is_the_current_one(tmp_path: Path) -> None:
    async with _stage(tmp_path) as stage:
        _store(tmp_path, tmp_path / "work")
        _, page = await _ask(stage, f"/sessions/{STORED}/page")
        move = {"type": "navigate_tree", "session": STORED, "targetId": page["ids"][1]}
        assert (await stage.post(move))["success"]
        _, news = await _ask(stage, f"/sessions/{STORED}/news?after={page['mark']}")
        assert news["leaf"] in (0, 1)


async def test_sessions_need_the_token_a_known_id_and_a_folder_inside_the_roots(
    tmp_path: Path,
) -> None:
    async with _stage(tmp_path, roots=(tmp_path / "work",)) as stage:
        _store(tmp_path, tmp_path)
        assert await stage.status(f"/sessions/{STORED}/page") == 401
        for path, status in (
            (f"/sessions/{STORED}/page", 404),
            ("/sessions/unknown/page", 404),
            ("/sessions/../page", 404),
            (f"/sessions/{STORED}/file", 404),
            (f"/sessions/{STORED}/news?after=x", 400),
        ):
            assert (await _ask(stage, path))[0] == status, path
        assert (await stage.post({"type": "list", "all": True}))["data"]["sessions"] == []


async def test_a_page_of_another_reading_has_to_begin_again(tmp_path: Path) -> None:
    async with served(tmp_path) as stage:
        session = await stage.open()
        _, page = await _ask(stage, f"/sessions/{session}/page")
        mark = read_mark(page["mark"])
        assert mark is not None
        for wrong in (f"other-{mark.count}", f"{mark.reading}-{mark.count + 1}"):
            assert (await _ask(stage, f"/sessions/{session}/news?after={wrong}"))[0] == 409
        named = {"type": "set_session_name", "session": session, "name": "Mine"}
        assert (await stage.post(named))["success"]
        listed = (await stage.post({"type": "list"}))["data"]["sessions"]
        assert [each["title"] for each in listed] == ["Mine"]
