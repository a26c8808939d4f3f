"""What document 002 demands of compaction, retry, the host's shell, and sessions."""

from tests.conformance.sections import OMP, Section

SECTIONS = (
    Section(
        document="002",
        place="compact, lines 245-267",
        dialects=OMP,
        text="""
RPC2-compact-01 compact replaces old messages by a summary.
RPC2-compact-02 `customInstructions` are instructions for the summarising model.
RPC2-compact-03 `customInstructions` may be left out.
RPC2-compact-04 `data` has `summary`, `firstKeptEntryId`, `tokensBefore` and an object `details`.
    Ours: also `shortSummary`, as measured.
RPC2-compact-05 A compaction by command has no events.
""",
    ),
    Section(
        document="002",
        place="set_auto_compaction, lines 268-276",
        dialects=OMP,
        text="""
RPC2-auto-compaction-01 With `enabled` true a context that is almost full is compacted
    automatically.
RPC2-auto-compaction-02 With `enabled` false it is not.
RPC2-auto-compaction-03 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="set_auto_retry, lines 278-286",
        dialects=OMP,
        text="""
RPC2-auto-retry-01 With `enabled` true an overloaded model is asked again.
RPC2-auto-retry-02 With `enabled` true a rate limit leads to another attempt.
RPC2-auto-retry-03 With `enabled` true an error 5xx leads to another attempt.
RPC2-auto-retry-04 With `enabled` false none of them does.
RPC2-auto-retry-05 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="abort_retry, lines 287-295",
        dialects=OMP,
        text="""
RPC2-abort-retry-01 abort_retry ends the wait, and no other attempt is made.
RPC2-abort-retry-02 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="bash, lines 297-338",
        dialects=OMP,
        text="""
RPC2-bash-01 bash runs `command` in a shell.
RPC2-bash-02 `output`, `exitCode`, `cancelled` and `truncated` describe the outcome.
RPC2-bash-03 `totalLines` and `totalBytes` count all that the command wrote.
RPC2-bash-04 `outputLines` and `outputBytes` count what `output` holds.
    Ours: lines are line feeds and one more, bytes those of UTF-8, as measured.
RPC2-bash-05 A cut output is marked, its counts differ, and `artifactId` names the whole.
RPC2-bash-06 `artifactId` is missing if the output was not cut.
""",
    ),
    Section(
        document="002",
        place="How bash results reach the LLM, lines 339-352",
        dialects=OMP,
        text="""
RPC2-bash-07 The command runs at once, also during a run, and its result is the reply.
RPC2-bash-08 A message of role bashExecution is kept in the conversation.
RPC2-bash-09 No event is sent for that message.
RPC2-bash-10 The model reads it with the next prompt, and not before.
RPC2-bash-11 It reads a user's message that names the command and holds its output in a fence.
RPC2-bash-12 Several commands before a prompt all reach the model.
""",
    ),
    Section(
        document="002",
        place="abort_bash, lines 353-361",
        dialects=OMP,
        text="""
RPC2-abort-bash-01 abort_bash stops a running command of the host.
RPC2-abort-bash-02 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="get_session_stats, lines 363-392",
        dialects=OMP,
        text="""
RPC2-stats-01 `sessionFile` and `sessionId` name the session.
RPC2-stats-02 `userMessages` and `assistantMessages` count those messages.
RPC2-stats-03 `toolCalls` and `toolResults` count calls and results.
RPC2-stats-04 `totalMessages` counts all messages.
RPC2-stats-05 `tokens` has `input`, `output`, `cacheRead`, `cacheWrite` and their `total`.
RPC2-stats-06 `cost` is what all of it cost.
""",
    ),
    Section(
        document="002",
        place="export_html, lines 393-410",
        dialects=OMP,
        text="""
RPC2-export-01 export_html writes the session as an HTML file and returns its `path`.
RPC2-export-02 `outputPath` says where.
""",
    ),
    Section(
        document="002",
        place="switch_session, lines 411-423",
        dialects=OMP,
        text="""
RPC2-switch-01 switch_session loads the session of another file.
RPC2-switch-02 `cancelled` is false if no extension objected.
RPC2-switch-03 A session_before_switch handler can cancel it: `cancelled` is true then.
""",
    ),
    Section(
        document="002",
        place="branch, lines 424-446",
        dialects=OMP,
        text="""
RPC2-branch-01 branch makes a new session that ends before a message of the user.
RPC2-branch-02 `text` is the text of that message, `cancelled` is false.
RPC2-branch-03 An extension can cancel it: `cancelled` is true then, and `text` is there too.
    Ours: the handler is named session_before_fork in every dialect.
""",
    ),
    Section(
        document="002",
        place="get_branch_messages, lines 447-465",
        dialects=OMP,
        text="""
RPC2-branch-messages-01 get_branch_messages lists the user's messages with `entryId` and `text`.
""",
    ),
    Section(
        document="002",
        place="get_last_assistant_text, lines 466-480",
        dialects=OMP,
        text="""
RPC2-last-text-01 get_last_assistant_text gives the text of the last answer.
RPC2-last-text-02 `text` is null before the first answer.
""",
    ),
    Section(
        document="002",
        place="set_session_name, lines 481-490",
        dialects=OMP,
        text="""
RPC2-session-name-01 set_session_name gives the session a name.
RPC2-session-name-02 The reply reports success and has no data.
RPC2-session-name-03 An empty name is refused.
""",
    ),
)
