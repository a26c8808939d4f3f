"""Documents that the host lends: asked for by address, limited like files, settled exactly once."""

import base64
from typing import Any

import pytest

from ludolf.base import loads
from ludolf.client import Client, Record
from ludolf.protocol.wire.commands import HostUriScheme
from tests.process.harness import Lab, only, text_of, types
from tests.process.script import Block, answer, call

WIKI = {"scheme": "Wiki", "description": "Pages of\nthe team", "writable": True}
LOG = {"scheme": "log", "immutable": True}
# One red pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)


def _read(path: str, call_id: str = "call_1", **more: Any) -> Block:
    return call("read", {"path": path, **more}, call_id)


def _write(path: str, content: str, call_id: str = "call_1") -> Block:
    return call("write", {"path": path, "content": content}, call_id)


def _edit(path: str, old: str, new: str, call_id: str = "call_1") -> Block:
    return call("edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}, call_id)


async def _begin(client: Client, *schemes: dict[str, Any]) -> Record:
    """Lend the schemes, prompt, and wait for the first request."""
    await client.ask("set_host_uri_schemes", schemes=list(schemes))
    await client.ask("prompt", message="Go")
    return await client.wait_for("host_uri_request")


async def _give(client: Client, asked: Record, content: str = "", **more: Any) -> None:
    await client.send("host_uri_result", id=asked["id"], content=content, **more)


def _results(told: list[Record]) -> dict[str, Record]:
    return {end["toolCallId"]: end for end in only(told, "tool_execution_end")}


def _texts(told: list[Record]) -> list[str]:
    return [text_of(end["result"]) for end in only(told, "tool_execution_end")]


@pytest.mark.parametrize("dialect", ["pi", "pi-0.79", "pi-delta", "omp", "xcsh", "pi-early"])
async def test_a_document_is_asked_for_and_its_text_reaches_the_model(
    lab: Lab, dialect: str
) -> None:
    lab.server.add(answer(_read("wiki://start?a=1")), answer("Done."))
    async with lab.client("--rpc-dialect", dialect) as client:
        await client.send("set_host_uri_schemes", id="s", schemes=[WIKI])
        await client.send("prompt", id="p", message="Go")
        told = await client.collect("host_uri_request")
        asked = told[-1]
        await client.send("host_uri_result", id="nobody", content="zzz")
        await _give(client, asked, "# Start\nwelcome\n", contentType="text/markdown")
        await _give(client, asked, "twice")
        told += await client.collect("agent_end")
    kinds = types(told)
    assert kinds.index("tool_execution_start call_1") < kinds.index("host_uri_request")
    assert {key: asked[key] for key in asked.keys() - {"id"}} == {
        "type": "host_uri_request",
        "operation": "read",
        "url": "wiki://start?a=1",
    }
    assert "# Start\\nwelcome" in str(lab.server.requests[1])
    assert not {"zzz", "twice"} & set(str(lab.server.requests[1]).split("'"))
    if dialect == "pi":
        assert only(told, "tool_execution_end")[0]["result"]["content"] == [
            {"type": "text", "text": "# Start\nwelcome\n"}
        ]


async def test_schemes_are_lower_case_and_replaced_as_a_set(lab: Lab) -> None:
    async with lab.client() as client:
        first = await client.ask("set_host_uri_schemes", schemes=[WIKI, {**LOG, "scheme": " log "}])
        second = await client.ask("set_host_uri_schemes", schemes=[{"scheme": "https"}])
        none = await client.ask("set_host_uri_schemes", schemes=[])
    assert first == {"schemes": ["wiki", "log"]}
    assert second == {"schemes": ["https"]}
    assert none == {"schemes": []}


async def test_bad_sets_are_refused_and_change_nothing(lab: Lab) -> None:
    bad: list[tuple[Any, str]] = [
        ({"scheme": "  "}, "Host URI scheme must be a non-empty string"),
        ({}, "Host URI scheme must be a non-empty string"),
        ("wiki", "Host URI scheme must be a non-empty string"),
        ({"scheme": "a b"}, "Host URI scheme contains invalid characters: a b"),
        ({"scheme": "1a"}, "Host URI scheme contains invalid characters: 1a"),
        ({"scheme": "File"}, "Host URI scheme is reserved: file://"),
    ]
    lab.server.add(answer(_read("wiki://a")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_uri_schemes", schemes=[WIKI])
        for scheme, error in bad:
            reply = await client.request("set_host_uri_schemes", schemes=[LOG, scheme])
            assert reply["error"] == error
        assert not (await client.request("set_host_uri_schemes"))["success"]
        assert (await client.request("host_uri_result", content="x", id=7))["error"] == (
            "Unknown command: host_uri_result"
        )
        await client.ask("prompt", message="Go")
        await _give(client, await client.wait_for("host_uri_request"), "still lent")
        told = await client.collect("agent_settled")
    assert _texts(told) == ["still lent"]


async def test_the_prompt_names_schemes_only_while_there_are_some(lab: Lab) -> None:
    lab.server.add(answer("1"), answer("2"), answer("3"))
    async with lab.client("--tools", "read,write") as client:
        await client.prompt_and_collect("Go")
        await client.ask("set_host_uri_schemes", schemes=[WIKI, LOG])
        await client.prompt_and_collect("Go")
        await client.ask("set_host_uri_schemes", schemes=[])
        await client.prompt_and_collect("Go")
    before, during, after = (str(request.body["system"]) for request in lab.server.requests)
    assert "- wiki:// (read, write): Pages of the team" in during
    assert "- log:// (read)" in during
    assert "host_documents" in during
    assert before == after
    assert "host_documents" not in before


async def test_long_documents_are_cut_and_read_on_like_files(lab: Lab) -> None:
    lines = "".join(f"line {number}\n" for number in range(1, 2502))
    calls = (_read("log://a", "c1"), _read("log://a", "c2", offset=2500, limit=1))
    lab.server.add(answer(*calls, _read("log://a", "c3", offset=9000)), answer("Done."))
    async with lab.client() as client:
        asked = [await _begin(client, LOG)]
        asked += [await client.wait_for("host_uri_request") for _ in range(2)]
        for item in asked:
            await _give(client, item, lines)
        told = await client.collect("agent_settled")
    results = _results(told)
    assert text_of(results["c1"]["result"]).endswith(
        "line 2000\n\n[Showing lines 1-2000 of 2502. Use offset=2001 to continue.]"
    )
    assert results["c1"]["result"]["details"]["truncation"]["truncatedBy"] == "lines"
    assert text_of(results["c2"]["result"]) == (
        "line 2500\n\n[2 more lines in file. Use offset=2501 to continue.]"
    )
    assert results["c3"]["isError"]
    assert (
        text_of(results["c3"]["result"]) == "Offset 9000 is beyond end of file (2502 lines total)"
    )


async def test_of_a_line_without_end_the_beginning_is_shown(lab: Lab) -> None:
    lab.server.add(answer(_read("log://a")), answer("Done."))
    async with lab.client() as client:
        asked = await _begin(client, LOG)
        await _give(client, asked, "x" * 200_000, contentType="application/json")
        told = await client.collect("agent_settled")
    (text,) = _texts(told)
    assert text.startswith("x" * 51_200 + "\n\n[Line 1 is ")
    assert text.endswith("; only its first 50.0KB are shown.]")


async def test_an_image_and_the_notes_of_the_host_reach_the_model(lab: Lab) -> None:
    lab.server.add(answer(_read("wiki://logo", "c1"), _read("wiki://bad", "c2")), answer("Seen."))
    async with lab.client() as client:
        first = await _begin(client, WIKI)
        second = await client.wait_for("host_uri_request")
        logo, bad = sorted((first, second), key=lambda asked: asked["url"], reverse=True)
        await _give(client, logo, PIXEL, contentType="image/png", notes=["from May", 3, " "])
        await _give(client, bad, "no image", contentType="image/png")
        told = await client.collect("agent_settled")
    results = _results(told)
    words, image, note = results["c1"]["result"]["content"]
    assert words["text"] == "Read image file [image/png]"
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    assert note["text"] == "[from May]"
    assert results["c2"]["isError"]
    assert text_of(results["c2"]["result"]).startswith("The image at wiki://bad is not base64")


async def test_writing_and_editing_ask_the_host_in_order(lab: Lab) -> None:
    calls = (
        _write("wiki://a", "one\r\ntwo\r\n", "c1"),
        _edit("wiki://a", "two", "three", "c2"),
        _write("@wiki://b", "", "c3"),
    )
    lab.server.add(answer(*calls), answer("Done."))
    pages: dict[str, str] = {}
    operations: list[tuple[str, str]] = []
    async with lab.client() as client:
        asked = await _begin(client, WIKI)
        for _ in range(4):
            operations.append((asked["operation"], asked["url"]))
            if asked["operation"] == "write":
                pages[asked["url"]] = asked["content"]
            await _give(client, asked, pages[asked["url"]])
            if len(operations) < 4:
                asked = await client.wait_for("host_uri_request")
        await client.wait_for("agent_settled")
    told = [loads(line) for line in lab.lines]
    assert pages == {"wiki://a": "one\r\nthree\r\n", "wiki://b": ""}
    of_a = [operation for operation, url in operations if url == "wiki://a"]
    assert of_a == ["write", "read", "write"]
    results = _results(told)
    assert text_of(results["c1"]["result"]) == "Successfully wrote to wiki://a"
    assert text_of(results["c2"]["result"]) == "Successfully replaced 1 block(s) in wiki://a."
    assert "three" in results["c2"]["result"]["details"]["diff"]
    assert list(lab.work.iterdir()) == []


async def test_what_cannot_be_written_is_refused_without_asking(lab: Lab) -> None:
    calls = (
        _write("log://a", "x", "c1"),
        _edit("log://a", "x", "y", "c2"),
        _write("zip://a", "x", "c3"),
        _read("http://example.com", "c4"),
    )
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_uri_schemes", schemes=[LOG])
        told = await client.prompt_and_collect("Go")
    assert not only(told, "host_uri_request")
    assert [text_of(end["result"]) for _, end in sorted(_results(told).items())] == [
        "log:// documents can only be read: log://a",
        "log:// documents can only be read: log://a",
        "No documents at zip:// addresses: zip://a. Known: log://.",
        "No documents at http:// addresses: http://example.com. Known: log://.",
    ]
    assert list(lab.work.iterdir()) == []


async def test_a_document_that_never_changes_is_not_edited(lab: Lab) -> None:
    lab.server.add(answer(_edit("wiki://a", "x", "y")), answer("Done."))
    async with lab.client() as client:
        asked = await _begin(client, WIKI)
        await _give(client, asked, "x", immutable=True)
        told = await client.collect("agent_settled")
    assert _texts(told) == ["Could not edit wiki://a: it is read-only."]
    assert not only(told, "host_uri_request")


async def test_the_words_of_a_failure_reach_the_model(lab: Lab) -> None:
    calls = [_read(f"wiki://{number}", f"c{number}") for number in range(3)]
    lab.server.add(answer(*calls), answer("Done."))
    said: list[dict[str, str]] = [{"error": "No such page"}, {"content": "Closed"}, {}]
    async with lab.client() as client:
        asked = [await _begin(client, WIKI)]
        asked += [await client.wait_for("host_uri_request") for _ in range(2)]
        for item in reversed(asked):
            words = said[int(item["url"][-1])]
            await client.send("host_uri_result", id=item["id"], isError=True, **words)
        told = await client.collect("agent_settled")
    results = _results(told)
    assert all(end["isError"] for end in results.values())
    assert [text_of(results[f"c{number}"]["result"]) for number in range(3)] == [
        "No such page",
        "Closed",
        "Host URI read for wiki://2 failed",
    ]


@pytest.mark.parametrize("dialect", ["pi", "omp"])
async def test_an_abort_cancels_the_request_and_a_late_answer_is_ignored(
    lab: Lab, dialect: str
) -> None:
    lab.server.add(answer(_read("wiki://a")), answer("Next."))
    async with lab.client("--rpc-dialect", dialect) as client:
        asked = await _begin(client, WIKI)
        await client.send("abort", id="a")
        told = await client.collect("agent_end")
        await _give(client, asked, "late")
        await client.ask("prompt", message="Again")
        again = await client.collect("agent_end")
    kinds = [kind for kind in types(told) if "cancel" in kind or "_end call_1" in kind]
    assert kinds == ["host_uri_cancel", "tool_execution_end call_1"]
    assert only(told, "host_uri_cancel")[0]["targetId"] == asked["id"]
    assert "late" not in str(again)
    if dialect == "pi":
        assert _texts(told) == ["Host URI read for wiki://a was aborted"]


async def test_a_scheme_that_is_taken_away_cancels_its_requests_and_no_others(lab: Lab) -> None:
    lab.server.add(answer(_read("wiki://a", "c1"), _read("log://b", "c2")), answer("Done."))
    async with lab.client() as client:
        first = await _begin(client, WIKI, LOG)
        second = await client.wait_for("host_uri_request")
        asked = {item["url"]: item for item in (first, second)}
        await client.ask("set_host_uri_schemes", schemes=[LOG])
        await _give(client, asked["wiki://a"], "late")
        await _give(client, asked["log://b"], "in time")
        told = await client.collect("agent_settled")
    (cancel,) = only(told, "host_uri_cancel")
    assert cancel["targetId"] == asked["wiki://a"]["id"]
    results = _results(told)
    assert text_of(results["c1"]["result"]) == "Host URI read for wiki://a was aborted"
    assert text_of(results["c2"]["result"]) == "in time"


async def test_a_host_that_is_too_slow_for_its_own_limit_is_cancelled(lab: Lab) -> None:
    lab.server.add(answer(_read("wiki://a")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_uri_schemes", schemes=[{**WIKI, "timeoutMs": 20}])
        told = await client.prompt_and_collect("Go")
    assert _texts(told) == ["Host URI read for wiki://a gave no result in 0.02 s"]
    assert len(only(told, "host_uri_cancel")) == 1


async def test_a_host_that_goes_away_fails_its_requests(lab: Lab) -> None:
    lab.server.add(answer(_read("wiki://a")), answer("Done."))
    async with lab.client() as client:
        await _begin(client, WIKI)
    assert "RPC client disconnected before host URI request completed" in str(lab.entries)


async def test_no_filter_hides_a_request_and_the_set_outlives_the_session(lab: Lab) -> None:
    lab.server.add(answer(_read("wiki://a")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_event_filter", events=["agent_settled"])
        await client.ask("set_host_uri_schemes", schemes=[WIKI])
        await client.ask("new_session")
        await client.ask("prompt", message="Go")
        await _give(client, await client.wait_for("host_uri_request"), "fine")
        await client.wait_for("agent_settled")
    assert "fine" in str(lab.server.requests[1])


async def test_files_are_read_as_before_beside_documents(lab: Lab) -> None:
    (lab.work / "a.txt").write_text("a file")
    url = (lab.work / "a.txt").as_uri()
    lab.server.add(answer(_read("a.txt", "c1"), _read(url, "c2")), answer("Done."))
    async with lab.client() as client:
        await client.ask("set_host_uri_schemes", schemes=[WIKI])
        told = await client.prompt_and_collect("Go")
    assert _texts(told) == ["a file", "a file"]


async def test_a_typed_client_lends_documents_and_hands_over(lab: Lab) -> None:
    lab.server.add(answer(_read("wiki://a", "c1"), _read("wiki://b", "c2")), answer("Done."))
    lab.server.add(answer("## Goal"))
    async with lab.client() as client:
        schemes = await client.set_host_uri_schemes([HostUriScheme(scheme="wiki")])
        await client.ask("prompt", message="Go")
        for _ in range(2):
            asked = await client.wait_for("host_uri_request")
            if asked["url"] == "wiki://a":
                await client.host_uri_result(asked["id"], "a page", notes=["old"])
            else:
                await client.host_uri_result(asked["id"], error="No such page")
        await client.wait_for("agent_settled")
        done = await client.handoff()
        opened = await client.open_session("talks")
        refused = await client.request("set_fast_mode", enabled=True)
        mode = await client.set_fast_mode(False)
    told = [loads(line) for line in lab.lines]
    assert schemes == ("wiki",)
    assert sorted(_texts(told)) == ["No such page", "a page[old]"]
    assert done is not None
    assert done.document is not None
    assert done.document.startswith("## Goal")
    assert opened.resumed is False
    assert (refused["success"], mode.enabled) == (False, False)
