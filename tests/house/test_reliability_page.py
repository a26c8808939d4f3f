"""The page on reliability names tests that exist, for every fault that we know of."""

import ast
import re
from functools import cache

from tests.house.source import ROOT

PAGE = ROOT / "docs" / "reliability.md"
# Rows without a test say why in so many words.
UNTESTED = ("there is nothing to test",)
TRIALS = """
malformed_json non_object_json blank_crlf_bom odd_ids bad_types duplicate_keys deep_nesting
lone_surrogate_in invalid_utf8_in unicode_separators big_frame byte_by_byte eof_idle
eof_unterminated_last_line eof_mid_run stdout_closed_mid_run slow_reader command_flood_unread
queue_thousands bash_background_holds_pipe bash_abort_tree tool_abort_tree sigterm_with_child
sigkill_with_child sigint_sighup bash_reads_stdin bash_binary_output bash_escape_sequences
bash_flood_1gb bash_one_line_50mb bash_killed_by_signal bash_env_secrets bash_tool_timeout
bash_concurrent read_special write_traversal write_through_symlink write_keeps_mode
edit_invalid_utf8_crlf_bom write_full_disk grep_redos session_torn_tail session_no_final_newline
session_garbage_middle session_nul_tail session_invalid_utf8 session_parent_cycle
session_duplicate_ids session_missing_parent session_future_version session_not_a_session
session_two_writers session_full_disk session_dir_vanishes session_kill_mid_turn
session_kill_mid_tool file_modes llm_stall llm_never_answers llm_cut llm_reset llm_noend
llm_garbage llm_html llm_500 llm_529_then_ok llm_429_retry_after_hour llm_400 llm_error_event
llm_surrogate llm_raw_bytes llm_unknown_events llm_huge_delta llm_bad_tool_json llm_401
llm_unknown_tool llm_tool_bad_args llm_endless_stream llm_gzip_bomb llm_server_down
llm_redirect_key_leak prompt_while_streaming two_prompts_one_write abort_at_once fuzz_interleave
project_code_on_open project_dotenv_redirect argv_key export_html_active export_html_overwrite
"""
_NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")


def _rows() -> list[str]:
    """The rows of the tables of promises and faults."""
    text = PAGE.read_text().partition("\n## Limits")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith(("| | promise", "| fault"))]


@cache
def _tests(place: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / place).read_text())
    functions = (node for node in ast.walk(tree) if hasattr(node, "name"))
    return frozenset(getattr(node, "name", "") for node in functions)


def test_every_named_test_exists() -> None:
    named = _NAMED.findall(PAGE.read_text())
    assert len(named) > 150
    assert [(place, name) for place, name in named if name not in _tests(place)] == []


def test_every_row_names_a_test_or_says_why_there_is_none() -> None:
    rows = _rows()
    assert len(rows) > 100
    assert [
        row for row in rows if not _NAMED.search(row) and not any(map(row.count, UNTESTED))
    ] == []


def test_every_known_fault_has_its_row() -> None:
    named = set(re.findall(r"\w+", " ".join(row.split("|")[1] for row in _rows())))
    assert [trial for trial in TRIALS.split() if trial not in named] == []


def test_every_promise_has_its_row() -> None:
    numbers = [row.split("|")[1].strip() for row in _rows()]
    assert [number for number in numbers if re.fullmatch(r"R\d+", number)] == [
        f"R{number}" for number in range(1, 13)
    ]
