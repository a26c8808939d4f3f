"""What document 002 demands of dialogs, events, errors, types and of hosts like its examples."""

from tests.conformance.sections import OMP, Section

SECTIONS = (
    Section(
        document="002",
        place="Extension UI, lines 491-504",
        dialects=OMP,
        text="""
RPC2-ui-01 Extensions have a user interface in RPC mode.
RPC2-ui-02 A dialog is an `extension_ui_request` on stdout.
RPC2-ui-03 The host answers by an `extension_ui_response` on stdin, with the same `id`.
RPC2-ui-04 A dialog with a `timeout` settles itself with its default; the host keeps no time.
RPC2-ui-05 A confirm has `id`, `method`, `title`, `message`, and `timeout` where there is one.
RPC2-ui-06 A confirm is answered by `confirmed`.
""",
    ),
    Section(
        document="002",
        place="Unsupported / degraded UI methods, lines 505-515",
        dialects=OMP,
        text="""
RPC2-ui-07 custom() gives nothing.
RPC2-ui-08 setWorkingMessage, setFooter, setHeader, setEditorComponent and setToolsExpanded do
    nothing.
RPC2-ui-09 getEditorText gives an empty text.
RPC2-ui-10 getToolsExpanded gives false.
RPC2-ui-11 setWidget takes lines of text; factories are left aside.
RPC2-ui-12 getAllThemes gives an empty list, getTheme nothing.
RPC2-ui-13 setTheme fails and says why.
RPC2-ui-14 hasUI is true.
""",
    ),
    Section(
        document="002",
        place="Events, lines 516-535",
        dialects=OMP,
        text="""
RPC2-events-01 Events are written as JSON lines while the agent works.
RPC2-events-02 The listed events carry no `id`; replies do.
RPC2-events-03 All fifteen listed types are sent when their events occur.
    Ours: also `ready`, `available_commands_update` and `prompt_result`, as measured; hosts ignore
    unknown types.
""",
    ),
    Section(
        document="002",
        place="agent_start and agent_end, lines 536-548",
        dialects=OMP,
        text="""
RPC2-agent-01 `agent_start` reports that the agent begins with a prompt.
RPC2-agent-02 `agent_end` reports that the agent is done: once for a prompt.
RPC2-agent-03 `messages` of agent_end holds all messages that this run has brought.
    Ours: also `isTerminal`; after another attempt only its messages, as measured.
""",
    ),
    Section(
        document="002",
        place="turn_start / turn_end, lines 549-560",
        dialects=OMP,
        text="""
RPC2-turn-01 A turn is one answer with its tool calls and their results.
RPC2-turn-02 `message` of turn_end is the answer, `toolResults` holds the results of its calls.
""",
    ),
    Section(
        document="002",
        place="message_start / message_end, lines 561-566",
        dialects=OMP,
        text="""
RPC2-message-01 `message_start` and `message_end` report that a message begins and is complete.
RPC2-message-02 Both hold it in `message`.
""",
    ),
    Section(
        document="002",
        place="message_update, lines 567-602",
        dialects=OMP,
        text="""
RPC2-update-01 `message_update` is sent while an answer arrives.
RPC2-update-02 `message` is the answer so far, and so is `partial` of the piece.
RPC2-update-03 The start of an answer (`start`) is reported.
    Ours: by message_start, as measured.
RPC2-update-04 `text_start`, `text_delta` and `text_end` report a text block.
RPC2-update-05 `thinking_start`, `thinking_delta` and `thinking_end` report a thinking block.
RPC2-update-06 `toolcall_start` and `toolcall_delta` report a call and its arguments.
RPC2-update-07 `toolcall_end` holds the whole call in `toolCall`.
RPC2-update-08 A complete answer (`done`) is reported with its reason: stop, length or toolUse.
    Ours: by message_end and its `stopReason`, as measured.
RPC2-update-09 A failed answer (`error`) is reported with its reason: aborted or error.
    Ours: by message_end and its `stopReason`, as measured.
RPC2-update-10 `contentIndex` says which block is meant, `delta` is the new piece.
RPC2-update-11 A text is sent as a start, its deltas, and an end with all of it in `content`.
""",
    ),
    Section(
        document="002",
        place="tool_execution_start / _update / _end, lines 603-639",
        dialects=OMP,
        text="""
RPC2-tool-01 `tool_execution_start` has `toolCallId`, `toolName` and `args`.
RPC2-tool-02 `tool_execution_update` reports output while the tool runs.
RPC2-tool-03 It has `toolCallId`, `toolName`, `args` and `partialResult`, an object with
    `content` and `details`.
RPC2-tool-04 `tool_execution_end` has `toolCallId`, `toolName`, `result` and `isError`.
RPC2-tool-05 `result` has `content` and `details`.
    Ours: the output of bash ends with its wall time, as measured.
RPC2-tool-06 The events of one call have one `toolCallId`.
RPC2-tool-07 `partialResult` holds all output so far, not only what is new.
""",
    ),
    Section(
        document="002",
        place="auto_compaction_start / auto_compaction_end, lines 640-660",
        dialects=OMP,
        text="""
RPC2-compaction-01 An automatic compaction has a start and an end.
RPC2-compaction-02 `reason` of the start is `threshold` where the context gets large.
RPC2-compaction-03 `reason` of the start is `overflow` where the context was too large.
RPC2-compaction-04 `result` of the end is what compact would have returned.
RPC2-compaction-05 After an overflow `willRetry` is true and the prompt is tried again.
RPC2-compaction-06 If it was aborted, `result` is null and `aborted` is true.
""",
    ),
    Section(
        document="002",
        place="auto_retry_start / auto_retry_end, lines 661-687",
        dialects=OMP,
        text="""
RPC2-retry-01 `auto_retry_start` reports a retry after a temporary error.
RPC2-retry-02 It has `attempt`, `maxAttempts`, `delayMs` and `errorMessage`.
    Ours: three attempts unless the settings say otherwise, as documented.
RPC2-retry-03 `auto_retry_end` with `success` true names the `attempt` that worked.
RPC2-retry-04 After the last attempt `success` is false and `finalError` is there.
""",
    ),
    Section(
        document="002",
        place="extension_error, lines 688-697",
        dialects=OMP,
        text="""
RPC2-extension-error-01 `extension_error` reports that an extension failed.
RPC2-extension-error-02 It has `extensionPath`, `event` and `error`.
""",
    ),
    Section(
        document="002",
        place="Error Handling, lines 698-716",
        dialects=OMP,
        text="""
RPC2-error-01 A failed command has `success` false and its text in `error`.
RPC2-error-02 set_model with an unknown model says `Model not found: provider/model`.
RPC2-error-03 A line that is not JSON is answered as `parse`: `Failed to parse command: …`.
    Ours: without an id, as measured; so are unknown commands.
""",
    ),
    Section(
        document="002",
        place="Model, lines 723-742",
        dialects=OMP,
        text="""
RPC2-model-01 A model has `id`, `name`, `api`, `provider`, `baseUrl`, `reasoning`, `input`,
    `contextWindow`, `maxTokens` and `cost`.
RPC2-model-02 `cost` has `input`, `output`, `cacheRead` and `cacheWrite`.
""",
    ),
    Section(
        document="002",
        place="UserMessage, lines 743-752",
        dialects=OMP,
        text="""
RPC2-user-01 A user's message has `role`, `content` and `timestamp`.
    Ours: also `attribution`, as measured.
RPC2-user-02 `content` is a text, or a list of text and image blocks.
    Ours: always a list.
RPC2-user-03 A user's message has `attachments`.
    Ours: only when the prompt brought some.
""",
    ),
    Section(
        document="002",
        place="AssistantMessage, lines 753-776",
        dialects=OMP,
        text="""
RPC2-assistant-01 An answer has text, thinking and toolCall blocks in `content`.
RPC2-assistant-02 `api`, `provider` and `model` identify the model.
RPC2-assistant-03 `usage` has the counts of tokens and their `cost`.
RPC2-assistant-04 `stopReason` is stop, length, toolUse, error or aborted.
RPC2-assistant-05 `timestamp` is the time in milliseconds.
""",
    ),
    Section(
        document="002",
        place="ToolResultMessage, lines 777-787",
        dialects=OMP,
        text="""
RPC2-result-01 A tool's result has `toolCallId`, `toolName`, `content`, `isError`, `timestamp`.
""",
    ),
    Section(
        document="002",
        place="BashExecutionMessage, lines 788-800",
        dialects=OMP,
        text="""
RPC2-execution-01 bash leaves a message with `command`, `output`, `exitCode`, `cancelled`,
    `truncated` and `timestamp`.
RPC2-execution-02 Calls of the bash tool by the model leave none.
""",
    ),
    Section(
        document="002",
        place="Attachment, lines 801-813",
        dialects=OMP,
        text="""
RPC2-attachment-01 An attachment with all its fields is taken with a prompt; its base64 in
    `content` reaches the model.
""",
    ),
    Section(
        document="002",
        place="Example: Basic Client (Python), lines 814-843",
        dialects=OMP,
        text="""
RPC2-client-01 A host in Python prints the pieces of the answer and stops at agent_end.
""",
    ),
    Section(
        document="002",
        place="Example: Interactive Client (Bun), lines 844-878",
        dialects=OMP,
        text="""
RPC2-client-02 A host that decodes chunks and cuts JSON values from them reads every record.
RPC2-client-03 A host that writes an abort when its user interrupts ends the answer.
""",
    ),
)
