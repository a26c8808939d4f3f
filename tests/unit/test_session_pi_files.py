"""Files that pi itself wrote open here, say the same, and are continued without rewriting."""

import json
from pathlib import Path

from ludolf.ai.messages import AssistantMessage, CompactionSummaryMessage, UserMessage, text_of
from ludolf.session.entries import MessageBody, entry_json
from ludolf.session.stats import Tally
from ludolf.session.tree import Session, open_session
from tests.session_samples import no_warning

PI_0_79 = (
    '{"type":"session","version":3,"id":"01a1de0f-dfac-7e74-b731-0ecdf52001c3","timestamp'
    '":"2026-11-15T07:15:44.684Z","cwd":"/work"}\n'
    '{"type":"model_change","id":"3e7962eb","parentId":null,"timestamp":"2026-11-15T07:15'
    ':44.696Z","provider":"mock","modelId":"mock-large"}\n'
    '{"type":"thinking_level_change","id":"de0c9f2f","parentId":"3e7962eb","timestamp":"2'
    '026-11-15T07:15:44.696Z","thinkingLevel":"off"}\n'
    '{"type":"message","id":"c4a2f4ef","parentId":"de0c9f2f","timestamp":"2026-11-15T07:1'
    '5:44.714Z","message":{"role":"user","content":[{"type":"text","text":"Hello"}],"time'
    'stamp":1794726944710}}\n'
    '{"type":"message","id":"9e83ce14","parentId":"c4a2f4ef","timestamp":"2026-11-15T07:1'
    '5:44.798Z","message":{"role":"assistant","content":[{"type":"text","text":"One."}],"'
    'api":"anthropic-messages","provider":"mock","model":"mock-large","usage":{"input":10'
    '0,"output":20,"cacheRead":0,"cacheWrite":0,"totalTokens":120,"cost":{"input":0.00030'
    '000000000000003,"output":0.00030000000000000003,"cacheRead":0,"cacheWrite":0,"total"'
    ':0.0006000000000000001},"cacheWrite1h":0},"stopReason":"stop","timestamp":1794726944'
    '750,"responseId":"msg_mock"}}\n'
    '{"type":"session_info","id":"a5145d4a","parentId":"9e83ce14","timestamp":"2026-11-15'
    'T07:15:44.801Z","name":"resumed"}\n'
    '{"type":"thinking_level_change","id":"3eeeb003","parentId":"a5145d4a","timestamp":"2'
    '026-11-15T07:15:44.802Z","thinkingLevel":"low"}\n'
    '{"type":"message","id":"c6b734dc","parentId":"3eeeb003","timestamp":"2026-11-15T07:1'
    '5:45.883Z","message":{"role":"user","content":[{"type":"text","text":"Go on"}],"time'
    'stamp":1794726945882}}\n'
    '{"type":"message","id":"7a2deb01","parentId":"c6b734dc","timestamp":"2026-11-15T07:1'
    '5:45.950Z","message":{"role":"assistant","content":[{"type":"text","text":"Two."}],"'
    'api":"anthropic-messages","provider":"mock","model":"mock-large","usage":{"input":10'
    '0,"output":20,"cacheRead":0,"cacheWrite":0,"totalTokens":120,"cost":{"input":0.00030'
    '000000000000003,"output":0.00030000000000000003,"cacheRead":0,"cacheWrite":0,"total"'
    ':0.0006000000000000001},"cacheWrite1h":0},"stopReason":"stop","timestamp":1794726945'
    '904,"responseId":"msg_mock"}}\n'
)

PI_0_87 = (
    '{"type":"session","version":3,"id":"01a1ddfa-5f6c-756d-ac9a-229a027a27dc","timestamp'
    '":"2026-11-15T06:52:15.597Z","cwd":"/work"}\n'
    '{"type":"model_change","id":"26a5f9dc","parentId":null,"timestamp":"2026-11-15T06:52'
    ':15.726Z","provider":"mock-chat","modelId":"chat-model"}\n'
    '{"type":"thinking_level_change","id":"c0896709","parentId":"26a5f9dc","timestamp":"2'
    '026-11-15T06:52:15.726Z","thinkingLevel":"off"}\n'
    '{"type":"message","id":"43e8427d","parentId":"c0896709","timestamp":"2026-11-15T06:5'
    '2:15.746Z","message":{"role":"system","content":"","sections":{"preamble":"You help.'
    '"},"timestamp":1794725535742,"toolsAdded":[{"name":"read","description":"<prose>","p'
    'arameters":{"type":"object"},"constrainedSampling":{"type":"json_schema","strict":"p'
    'refer"}}]}}\n'
    '{"type":"message","id":"1ff69b02","parentId":"43e8427d","timestamp":"2026-11-15T06:5'
    '2:15.746Z","message":{"role":"user","content":[{"type":"text","text":"Question one"}'
    '],"timestamp":1794725535738}}\n'
    '{"type":"message","id":"cb766b5e","parentId":"1ff69b02","timestamp":"2026-11-15T06:5'
    '2:15.818Z","message":{"role":"assistant","content":[{"type":"text","text":"Answer on'
    'e"}],"api":"openai-completions","provider":"mock-chat","model":"chat-model","usage":'
    '{"input":100,"output":20,"cacheRead":0,"cacheWrite":0,"reasoning":0,"totalTokens":12'
    '0,"cost":{"input":0.00019999999999999998,"output":0.00015999999999999999,"cacheRead"'
    ':0,"cacheWrite":0,"total":0.00035999999999999997}},"stopReason":"stop","timestamp":1'
    '794725535770,"responseId":"chatcmpl-mock","rawStopReason":"stop"}}\n'
    '{"type":"message","id":"e78a2407","parentId":"cb766b5e","timestamp":"2026-11-15T06:5'
    '2:15.823Z","message":{"role":"user","content":[{"type":"text","text":"Question two"}'
    '],"timestamp":1794725535822}}\n'
    '{"type":"message","id":"c2792637","parentId":"e78a2407","timestamp":"2026-11-15T06:5'
    '2:15.890Z","message":{"role":"assistant","content":[{"type":"text","text":"Answer tw'
    'o"}],"api":"openai-completions","provider":"mock-chat","model":"chat-model","usage":'
    '{"input":100,"output":20,"cacheRead":0,"cacheWrite":0,"reasoning":0,"totalTokens":12'
    '0,"cost":{"input":0.00019999999999999998,"output":0.00015999999999999999,"cacheRead"'
    ':0,"cacheWrite":0,"total":0.00035999999999999997}},"stopReason":"stop","timestamp":1'
    '794725535825,"responseId":"chatcmpl-mock","rawStopReason":"stop"}}\n'
    '{"type":"message","id":"9c9eb4f1","parentId":"c2792637","timestamp":"2026-11-15T06:5'
    '2:15.893Z","message":{"role":"user","content":[{"type":"text","text":"Overflow now"}'
    '],"timestamp":1794725535892}}\n'
    '{"type":"message","id":"d7d02e6a","parentId":"9c9eb4f1","timestamp":"2026-11-15T06:5'
    '2:15.960Z","message":{"role":"assistant","content":[],"api":"openai-completions","pr'
    'ovider":"mock-chat","model":"chat-model","usage":{"input":0,"output":0,"cacheRead":0'
    ',"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWri'
    'te":0,"total":0}},"stopReason":"error","timestamp":1794725535902,"errorMessage":"400'
    ': too long"}}\n'
    '{"type":"context_edit","id":"e67da3bf","parentId":"d7d02e6a","timestamp":"2026-11-15'
    'T06:52:15.965Z","targetId":"d7d02e6a","replacement":null}\n'
    '{"type":"compaction","id":"1f90bdc6","parentId":"e67da3bf","timestamp":"2026-11-15T0'
    '6:52:15.982Z","summary":"## Goal\\nSummary.","firstKeptEntryId":"e78a2407","tokensBef'
    'ore":1709,"details":{"readFiles":[],"modifiedFiles":[]},"usage":{"input":100,"output'
    '":20,"cacheRead":0,"cacheWrite":0,"reasoning":0,"totalTokens":120,"cost":{"input":0.'
    '00019999999999999998,"output":0.00015999999999999999,"cacheRead":0,"cacheWrite":0,"t'
    'otal":0.00035999999999999997}},"fromHook":false,"systemMessage":{"role":"system","co'
    'ntent":"","sections":{"preamble":"You help."},"timestamp":1794725535982}}\n'
    '{"type":"message","id":"f8c57313","parentId":"1f90bdc6","timestamp":"2026-11-15T06:5'
    '2:16.055Z","message":{"role":"assistant","content":[{"type":"text","text":"Fits."}],'
    '"api":"openai-completions","provider":"mock-chat","model":"chat-model","usage":{"inp'
    'ut":100,"output":20,"cacheRead":0,"cacheWrite":0,"reasoning":0,"totalTokens":120,"co'
    'st":{"input":0.00019999999999999998,"output":0.00015999999999999999,"cacheRead":0,"c'
    'acheWrite":0,"total":0.00035999999999999997}},"stopReason":"stop","timestamp":179472'
    '5535985,"responseId":"chatcmpl-mock","rawStopReason":"stop"}}\n'
)


def told(session: Session) -> list[str]:
    found = []
    for message in session.context.messages():
        if isinstance(message, CompactionSummaryMessage):
            found.append(f"<{message.summary}>")
        elif isinstance(message, UserMessage | AssistantMessage):
            found.append(text_of(message.content))
    return found


def opened(path: Path, content: str) -> Session:
    path.write_text(content)
    return open_session(path, "/", no_warning)


def test_a_file_of_pi_0_79_is_read_and_continued_in_place(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    session = opened(path, PI_0_79)
    assert told(session) == ["Hello", "One.", "Go on", "Two."]
    assert (session.name, session.header.cwd) == ("resumed", "/work")
    assert session.context.model == ("mock", "mock-large")
    assert session.context.thinking_level == "low"
    lines = PI_0_79.splitlines()[1:]
    assert [entry_json(entry).decode() for entry in session.entries()] == lines
    stats = Tally(session).stats(200_000)
    assert (stats.tokens.total, stats.total_messages) == (240, 4)
    assert stats.context_usage is not None
    assert stats.context_usage.percent == 0.06
    session.append(MessageBody(message=UserMessage(content="More", timestamp=1)))
    assert path.read_text().startswith(PI_0_79)


def test_system_messages_and_edits_of_pi_0_87_are_understood(tmp_path: Path) -> None:
    session = opened(tmp_path / "s.jsonl", PI_0_87)
    assert told(session) == [
        "<## Goal\nSummary.>",
        "Question two",
        "Answer two",
        "Overflow now",
        "Fits.",
    ]
    assert [json.loads(bytes(raw))["role"] for raw in session.context.messages_json()] == [
        "compactionSummary",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    stats = Tally(session).stats()
    assert (stats.assistant_messages, stats.total_messages) == (4, 7)
