"""What document 004 demands of sessions, their figures, and discovery."""

from tests.conformance.sections import Section

SECTIONS = (
    Section(
        document="004",
        place="new_session, lines 43-48",
        text="""
RPC4-new-session-01 new_session begins an empty conversation in a session of its own.
RPC4-new-session-02 `parentSession` is kept as the session that this one comes from.
RPC4-new-session-03 `parentSession` may be left out.
RPC4-new-session-04 `cancelled` in `data` is false when the session has begun.
""",
    ),
    Section(
        document="004",
        place="get_session_stats, lines 113-117",
        text="""
RPC4-stats-01 `sessionFile` is the path of the session's file.
RPC4-stats-02 `sessionId` is the id of the session.
RPC4-stats-03 `userMessages` counts the user's messages.
RPC4-stats-04 `assistantMessages` counts the answers.
RPC4-stats-05 `toolCalls` counts the calls of tools.
RPC4-stats-06 `toolResults` counts their results.
RPC4-stats-07 `totalMessages` counts all messages.
RPC4-stats-08 `tokens` has the sums of input, output, cacheRead and cacheWrite of all answers.
RPC4-stats-09 `tokens.total` is the sum of the four.
RPC4-stats-10 `cost` is what the answers cost together.
RPC4-stats-11 `contextUsage.tokens` estimates how much of the context is used now.
RPC4-stats-12 `contextUsage.contextWindow` is the size of the model's context window.
RPC4-stats-13 `contextUsage.percent` is the used part of it in percent.
RPC4-stats-14 `contextUsage` is missing without a model or a known context window.
RPC4-stats-15 After a compaction `tokens` and `percent` of it are null.
RPC4-stats-16 The next answer with usage fills them again.
""",
    ),
    Section(
        document="004",
        place="switch_session, lines 122-126",
        text="""
RPC4-switch-01 switch_session loads the session file `sessionPath`.
RPC4-switch-02 `cancelled` in `data` is false when it has been loaded.
""",
    ),
    Section(
        document="004",
        place="fork, lines 126-129",
        text="""
RPC4-fork-01 fork makes a new session that ends before the user's message `entryId`.
RPC4-fork-02 `text` is the text of that message.
RPC4-fork-03 `cancelled` is false when the fork was made.
""",
    ),
    Section(
        document="004",
        place="clone, lines 129-132",
        text="""
RPC4-clone-01 clone copies the active branch up to where it stands into a new session.
RPC4-clone-02 `cancelled` in `data` is false when the copy was made.
""",
    ),
    Section(
        document="004",
        place="get_fork_messages, lines 132-135",
        text="""
RPC4-fork-messages-01 get_fork_messages lists the user's messages that fork takes.
RPC4-fork-messages-02 Each has `entryId` and `text`.
""",
    ),
    Section(
        document="004",
        place="get_last_assistant_text, lines 135-138",
        text="""
RPC4-last-text-01 `text` is the text of the last answer.
RPC4-last-text-02 `text` is null before the first answer.
""",
    ),
    Section(
        document="004",
        place="set_session_name, lines 139-142",
        text="""
RPC4-session-name-01 set_session_name gives the session the name `name`.
RPC4-session-name-02 The name is kept in the session's file, where lists of sessions find it.
RPC4-session-name-03 get_state shows it as `sessionName`.
RPC4-session-name-04 The reply reports success and has no data.
RPC4-session-name-05 `--name` and `-n` give the first name at start.
""",
    ),
    Section(
        document="004",
        place="get_commands, lines 143-150",
        text="""
RPC4-commands-01 get_commands lists prompt templates and skills in `commands`.
RPC4-commands-02 Each can be called by prompt, with a slash before its name.
RPC4-commands-03 `name` is the name of the command.
RPC4-commands-04 `description` says for people what it does.
RPC4-commands-05 `source` is `prompt` for a template that was read from a Markdown file.
RPC4-commands-06 `source` is `skill` for one from a skill's folder.
RPC4-commands-07 The name of a skill's command begins with `skill:`.
RPC4-commands-08 `location` is `user` for what lies in the user's folder.
RPC4-commands-09 `location` is `project` for what lies in the project's folder.
RPC4-commands-10 `location` is `path` for what was named on the command line.
RPC4-commands-11 `location` is `path` for what was named in the settings.
RPC4-commands-12 `path` is the absolute path of the file.
RPC4-commands-13 Commands of the terminal program, like `/settings`, are not listed.
RPC4-commands-14 Commands of the terminal program are not carried out when they come as a prompt.
""",
    ),
)

EXPORT = (
    Section(
        document="004",
        place="export_html, lines 118-122",
        area="export",
        text="""
RPC4-export-01 export_html writes the session to an HTML file.
RPC4-export-02 `outputPath` says where.
RPC4-export-03 `outputPath` may be left out.
RPC4-export-04 `path` in `data` is the path of the file.
""",
    ),
)

EXTENSIONS = (
    Section(
        document="004",
        place="new_session, switch_session, fork and clone, lines 44-48, 123-132",
        area="extensions",
        text="""
RPC4-cancel-01 A session_before_switch handler may cancel new_session.
RPC4-cancel-02 `cancelled` is true in the reply to a new_session that was cancelled.
RPC4-cancel-03 A session_before_switch handler may cancel switch_session.
RPC4-cancel-04 `cancelled` is true in the reply to a switch_session that was cancelled.
RPC4-cancel-05 A session_before_fork handler may cancel fork.
RPC4-cancel-06 `cancelled` is true in the reply to a fork that was cancelled, and `text` is there.
RPC4-cancel-07 A session_before_fork handler may cancel clone.
RPC4-cancel-08 `cancelled` is true in the reply to a clone that was cancelled.
""",
    ),
    Section(
        document="004",
        place="get_commands, lines 144-149",
        area="extensions",
        text="""
RPC4-commands-15 Commands that extensions registered are listed with `source` `extension`.
RPC4-commands-16 `description` may be missing for them.
RPC4-commands-17 `location` is missing for them.
RPC4-commands-18 `path` is the file of the extension.
""",
    ),
)
