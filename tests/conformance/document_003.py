"""What document 003, a study of pi's RPC mode in Chinese, demands."""

from tests.conformance.sections import Section

SECTIONS = (
    Section(
        document="003",
        place="TL;DR, lines 7-13",
        text="""
RPC3-overview-01 `--mode rpc` starts a process that stays and waits for commands on stdin.
RPC3-overview-02 Each line of stdin is one JSON object that is a command.
RPC3-overview-03 Each line of stdout is one JSON object: a reply to a command, or an event.
RPC3-overview-04 A prompt is answered first, as accepted; events report its work afterwards.
RPC3-overview-05 A prompt is finished when `agent_end` has been sent.
""",
    ),
    Section(
        document="003",
        place="协议结构 1) Commands, lines 22-24",
        text="""
RPC3-commands-01 A command is named by its `type`.
RPC3-commands-02 A command may carry an `id`, by which its reply is found.
RPC3-commands-03 prompt, get_state, abort, bash, compact and set_model are commands.
""",
    ),
    Section(
        document="003",
        place="协议结构 2) Responses, lines 26-31",
        text="""
RPC3-responses-01 A reply has the type `response`.
RPC3-responses-02 `command` of a reply names the type of the command.
RPC3-responses-03 `success` of a reply is true or false.
RPC3-responses-04 `data` holds what a command returns, and is missing where it returns nothing.
RPC3-responses-05 get_state, bash and compact return `data`.
RPC3-responses-06 `error` of a reply holds the text of what went wrong.
""",
    ),
    Section(
        document="003",
        place="协议结构 3) Events, lines 33-37",
        text="""
RPC3-events-01 Every event of the session is written as a line of its own.
RPC3-events-02 Text deltas come as `message_update`, tool progress as `tool_execution_*`.
RPC3-events-03 What is not a `response` is an event, so a host needs only look at `type`.
""",
    ),
    Section(
        document="003",
        place="为什么需要 RPC mode, line 18",
        text="""
RPC3-events-04 The events mean the same as those of JSON mode.
""",
    ),
    Section(
        document="003",
        place="Step 1 to Step 4, lines 46-70",
        text="""
RPC3-steps-01 A host reads stdout line by line and writes a command as one JSON line.
RPC3-steps-02 A reply can be matched to its command by `id`; all else goes to the event handler.
RPC3-steps-03 After the reply to a prompt come agent_start, deltas, tool events and agent_end.
RPC3-steps-04 During a run a new instruction can be given by prompt with `streamingBehavior`.
RPC3-steps-05 During a run a new instruction can be given by steer or follow_up.
""",
    ),
    Section(
        document="003",
        place="Step 6, lines 82-85",
        text="""
RPC3-states-01 get_state gives what a status bar shows, at any time.
RPC3-states-02 abort is a stop button for the run.
RPC3-states-03 abort_bash is a stop button for commands of the host.
RPC3-states-04 abort_retry is a stop button for a wait before another attempt.
RPC3-states-05 get_messages gives the conversation for a replay or a list in the host.
""",
    ),
    Section(
        document="003",
        place="与 JSON mode 的区别, lines 88-90",
        text="""
RPC3-modes-01 `--mode json` with a prompt runs once, prints the events and ends.
RPC3-modes-02 `--mode rpc` stays for several commands, one prompt after another.
""",
    ),
    Section(
        document="003",
        place="限制/边界, lines 92-93",
        text="""
RPC3-limits-01 stdin belongs to the protocol: what is piped in is never a message to the model.
RPC3-limits-02 `@file` arguments are refused in RPC mode.
RPC3-limits-03 The content of a file is given by the host inside `message` of a prompt.
""",
    ),
    Section(
        document="003",
        place="证据锚点, lines 96-109",
        text="""
RPC3-anchors-01 A prompt does not block: other commands are answered while it runs.
""",
    ),
)

EXPORT = (
    Section(
        document="003",
        place="Step 6, line 86",
        area="export",
        text="""
RPC3-export-01 export_html writes the session as an HTML page that a host can open.
""",
    ),
)

EXTENSIONS = (
    Section(
        document="003",
        place="TL;DR and 4) Extension UI, lines 9-12 and 39-42",
        area="extensions",
        text="""
RPC3-extensions-01 Extensions run in RPC mode too.
RPC3-extensions-02 stdin also takes `extension_ui_response` records.
RPC3-extensions-03 stdout also carries `extension_ui_request` and `extension_error` records.
RPC3-extensions-04 An extension's question is an `extension_ui_request` with an `id`.
RPC3-extensions-05 The host's answer is an `extension_ui_response` with the same `id`.
RPC3-extensions-06 Only dialogs need an answer.
RPC3-extensions-07 notify, setStatus, setWidget, setTitle and set_editor_text need none.
""",
    ),
    Section(
        document="003",
        place="Step 5, lines 72-80",
        area="extensions",
        text="""
RPC3-extensions-08 A select is answered by the chosen option in `value`.
""",
    ),
    Section(
        document="003",
        place="限制/边界, line 94",
        area="extensions",
        text="""
RPC3-extensions-09 What needs a terminal (themes, tool folding, loaders, header, footer, editor)
    does nothing or a lesser thing, and harms no extension that asks for it.
""",
    ),
)
