"""What document 001, the RPC documentation of early pi (December 2025), demands."""

from tests.conformance.sections import EARLY, Section

_INPUT = (
    Section(
        document="001",
        place="Starting RPC Mode, lines 23-28",
        dialects=EARLY,
        text="""
RPC1-start-01 `--mode rpc` starts the program to be driven by JSON on stdin and stdout.
RPC1-start-02 With `--no-session` nothing is stored.
RPC1-start-03 Without `--no-session` the conversation is stored.
""",
    ),
    Section(
        document="001",
        place="Input Protocol, lines 29-30",
        dialects=EARLY,
        text="""
RPC1-input-01 Every command is one complete JSON object on a line of its own.
RPC1-input-02 The newline ends it: what comes in pieces is read once the newline is there.
""",
    ),
    Section(
        document="001",
        place="Prompt Message, lines 32-41",
        dialects=EARLY,
        text="""
RPC1-prompt-01 prompt hands `message` to the agent as what the user says.
RPC1-prompt-02 `attachments` may be left out.
RPC1-prompt-03 `attachments` may be an empty list.
RPC1-prompt-04 An attached image is shown to the model.
RPC1-prompt-05 An attached document is shown to the model as its extracted text.
    Ours: behind its name in brackets, as measured.
RPC1-prompt-06 A second prompt may come at any time.
    Ours: during a run it waits for its end, instead of a second run in parallel.
""",
    ),
    Section(
        document="001",
        place="Abort Message, lines 42-48",
        dialects=EARLY,
        text="""
RPC1-abort-01 abort stops what the agent does at the moment.
RPC1-abort-02 It is not acknowledged; the end of the run is sent. Without a run no event is sent.
""",
    ),
    Section(
        document="001",
        place="Compact Message, lines 49-57",
        dialects=EARLY,
        text="""
RPC1-compact-01 compact replaces the conversation by a shorter summary.
RPC1-compact-02 `customInstructions` are instructions for the summarising model.
RPC1-compact-03 `customInstructions` may be left out.
""",
    ),
    Section(
        document="001",
        place="Commit message and Bash Message, lines 3-8 and 58-66",
        dialects=EARLY,
        text="""
RPC1-bash-01 bash runs `command` in a shell.
RPC1-bash-02 The model is not asked because of it.
RPC1-bash-03 `bash_end` marks its end, with its message.
RPC1-bash-04 Commands are kept in the session, as messages of role bashExecution.
RPC1-bash-05 Its output stands in the conversation, so that the next prompt can speak of it.
""",
    ),
)

_EVENTS = (
    Section(
        document="001",
        place="Output Protocol, lines 67-83",
        dialects=EARLY,
        text="""
RPC1-output-01 Every line of stdout is one JSON object.
RPC1-output-02 It is an event of one of the twelve listed types; replies do not exist.
""",
    ),
    Section(
        document="001",
        place="agent_start and agent_end, lines 72-73 and 85-99",
        dialects=EARLY,
        text="""
RPC1-agent-01 `agent_start` reports that the agent begins with a prompt, and holds nothing else.
RPC1-agent-02 `agent_end` reports that all work on it is done.
RPC1-agent-03 `messages` of agent_end holds all messages that this prompt has brought.
""",
    ),
    Section(
        document="001",
        place="turn_start and turn_end, lines 74-75 and 100-115",
        dialects=EARLY,
        text="""
RPC1-turn-01 `turn_start` reports that a turn begins, and holds nothing else.
RPC1-turn-02 A turn has a message of the user or none, one answer, and the results of its calls.
RPC1-turn-03 `turn_end` reports that the turn is complete.
RPC1-turn-04 `message` of turn_end is the answer.
RPC1-turn-05 `toolResults` of turn_end holds the results of its calls.
""",
    ),
    Section(
        document="001",
        place="message_start and message_end, lines 76-78, 116-123 and 138-145",
        dialects=EARLY,
        text="""
RPC1-message-01 `message_start` reports that a message begins, and holds it in `message`.
RPC1-message-02 It may be a user's message, an answer or a tool's result.
RPC1-message-03 `message_end` reports that a message is complete, and holds it in `message`.
""",
    ),
    Section(
        document="001",
        place="message_update, lines 77 and 124-137",
        dialects=EARLY,
        text="""
RPC1-update-01 `message_update` is sent while an answer arrives.
RPC1-update-02 `message` is the answer as far as it has come.
RPC1-update-03 `assistantMessageEvent` is the piece that has come.
RPC1-update-04 `text_delta` has `contentIndex`, `delta` and `partial`.
RPC1-update-05 `thinking_delta` has `contentIndex`, `delta` and `partial`.
RPC1-update-06 `toolcall_delta` has `contentIndex`, a piece of JSON in `delta`, and `partial`.
""",
    ),
    Section(
        document="001",
        place="tool_execution_start and tool_execution_end, lines 79-80 and 146-169",
        dialects=EARLY,
        text="""
RPC1-tool-01 `tool_execution_start` reports that a tool begins.
RPC1-tool-02 It has `toolCallId`, `toolName` and `args`.
RPC1-tool-03 `tool_execution_end` reports that the tool is done.
RPC1-tool-04 It has `toolCallId`, `toolName`, `result` and `isError`.
RPC1-tool-05 `result` is an object with `content`, and `details` where the tool has some.
RPC1-tool-06 If `isError` is true, `result` is the text of the error.
""",
    ),
    Section(
        document="001",
        place="bash_end, lines 82 and 170-187",
        dialects=EARLY,
        text="""
RPC1-bash-end-01 `bash_end` is sent when a command of the host is done.
RPC1-bash-end-02 `message` has the role bashExecution, and the `command` that ran.
RPC1-bash-end-03 `output` is what the command wrote.
RPC1-bash-end-04 `exitCode` is its exit code.
RPC1-bash-end-05 `cancelled` and `truncated` say whether it was stopped and whether output is cut.
RPC1-bash-end-06 `fullOutputPath` names a file with all of a cut output.
RPC1-bash-end-07 `fullOutputPath` is missing when nothing was cut.
RPC1-bash-end-08 `timestamp` is the time in milliseconds.
RPC1-bash-end-09 The message has been added to the conversation.
""",
    ),
    Section(
        document="001",
        place="error, lines 83 and 188-195",
        dialects=EARLY,
        text="""
RPC1-error-01 `error` reports that a line of input could not be processed.
RPC1-error-02 Its text is in `error`.
RPC1-error-03 A model failure is not an `error`.
    Ours: as measured, an answer with stopReason `error`; temporary failures are retried.
""",
    ),
    Section(
        document="001",
        place="compaction, lines 81 and 196-211",
        dialects=EARLY,
        text="""
RPC1-compaction-01 `compaction` is sent when a compaction by command is done.
RPC1-compaction-02 It is sent when an automatic compaction is done.
RPC1-compaction-03 `summary` is the text that stands for the old messages from now on.
RPC1-compaction-04 `tokensBefore` is the size of the context before.
    Ours: `timestamp` and `firstKeptEntryIndex` come along, as measured.
RPC1-compaction-05 `auto` is true if it was automatic.
RPC1-compaction-06 `auto` is missing where a command asked for it.
RPC1-compaction-07 It happens automatically when less than the reserve is left of the context.
RPC1-compaction-08 The reserve is 20 000 tokens unless the settings say otherwise.
    Ours: 16 384, as measured.
""",
    ),
)

_TYPES = (
    Section(
        document="001",
        place="UserMessage, lines 217-234",
        dialects=EARLY,
        text="""
RPC1-user-01 A user's message has `role`, `content` and `timestamp`.
RPC1-user-02 `content` is a text, or a list of text and image blocks.
    Ours: always a list, as measured; the example shows a text.
RPC1-user-03 `timestamp` is the time in milliseconds.
RPC1-user-04 A user's message may come with attachments.
""",
    ),
    Section(
        document="001",
        place="AssistantMessage, lines 235-249",
        dialects=EARLY,
        text="""
RPC1-assistant-01 An answer has role `assistant` and a list of blocks in `content`.
RPC1-assistant-02 Its blocks are texts, thoughts and tool calls.
RPC1-assistant-03 `api`, `provider` and `model` identify the model.
RPC1-assistant-04 `usage` and `stopReason` hold its cost and the reason of its end.
RPC1-assistant-05 `errorMessage` is there when something went wrong, and else missing.
RPC1-assistant-06 `timestamp` is the time in milliseconds.
""",
    ),
    Section(
        document="001",
        place="ToolResultMessage, lines 250-262",
        dialects=EARLY,
        text="""
RPC1-result-01 A tool's result has role `toolResult`, `toolCallId` and `toolName`.
RPC1-result-02 `content` is a list of text and image blocks, also when the tool failed.
RPC1-result-03 `details` is there where the tool has some.
RPC1-result-04 `isError` says whether the tool failed; `timestamp` is the time in milliseconds.
""",
    ),
    Section(
        document="001",
        place="AppMessage, lines 263-272",
        dialects=EARLY,
        text="""
RPC1-app-01 Messages of a run are users' messages, answers and tools' results.
""",
    ),
    Section(
        document="001",
        place="BashExecutionMessage, lines 273-294",
        dialects=EARLY,
        text="""
RPC1-execution-01 A command's message has role, command, output, exit code, two marks and a time.
RPC1-execution-02 `exitCode` is null if the command was killed.
RPC1-execution-03 `cancelled` is true if it was stopped.
    Ours: abort_bash stops it; early pi had no command for that.
RPC1-execution-04 `truncated` is true if `output` is only the end of what it wrote.
RPC1-execution-05 The model reads it as a user's message: the command named, its output fenced.
""",
    ),
    Section(
        document="001",
        place="Content Types, lines 295-329",
        dialects=EARLY,
        text="""
RPC1-content-01 A text block has `text`; `textSignature` is there only where a model gave one.
RPC1-content-02 A thinking block has `thinking`; `thinkingSignature` where a model gave one.
RPC1-content-03 An image block has base64 in `data`, and `mimeType`.
RPC1-content-04 A call has `id`, `name` and an object in `arguments`.
RPC1-content-05 `thoughtSignature` of a call is there only where a model gave one.
""",
    ),
    Section(
        document="001",
        place="Attachment, lines 330-343",
        dialects=EARLY,
        text="""
RPC1-attachment-01 An attachment has `id`, `type`, `fileName`, `mimeType` and `size`.
RPC1-attachment-02 Its `type` is image or document.
RPC1-attachment-03 `content` is base64 without any prefix.
RPC1-attachment-04 `extractedText` and `preview` may be missing; without its text a document
    adds nothing.
""",
    ),
    Section(
        document="001",
        place="Usage, lines 344-360",
        dialects=EARLY,
        text="""
RPC1-usage-01 `usage` counts `input`, `output`, `cacheRead` and `cacheWrite`.
    Ours: `totalTokens` comes along, as measured.
RPC1-usage-02 `cost` has the price of each of them, and their `total`.
""",
    ),
    Section(
        document="001",
        place="StopReason, lines 361-364",
        dialects=EARLY,
        text="""
RPC1-stop-01 An answer ends with stop, length, toolUse, error or aborted.
""",
    ),
    Section(
        document="001",
        place="AssistantMessageEvent, lines 365-382",
        dialects=EARLY,
        text="""
RPC1-stream-01 The start of an answer is reported.
    Ours: by message_start, as measured; no update of type `start` is sent.
RPC1-stream-02 `text_start`, `text_delta` and `text_end` report a text block.
RPC1-stream-03 `thinking_start`, `thinking_delta` and `thinking_end` report a thinking block.
RPC1-stream-04 `toolcall_start`, `toolcall_delta` and `toolcall_end` report a tool call.
RPC1-stream-05 `contentIndex` says which block of the answer is meant.
RPC1-stream-06 `content` of text_end and thinking_end is the whole block's text.
RPC1-stream-07 `toolCall` of toolcall_end is the whole call.
RPC1-stream-08 `partial` of each is the answer so far.
RPC1-stream-09 A complete answer is reported with its reason: stop, length or toolUse.
    Ours: by message_end and its `stopReason`, as measured; no update of type `done` is sent.
RPC1-stream-10 A failed answer is reported with its reason: aborted or error.
    Ours: by message_end and its `stopReason`, as measured; no update of type `error` is sent.
""",
    ),
    Section(
        document="001",
        place="AgentToolResult, lines 383-391",
        dialects=EARLY,
        text="""
RPC1-tool-result-01 The result of a tool has `content`, a list of text and image blocks.
RPC1-tool-result-02 It has `details` where the tool has some.
""",
    ),
)

_USE = (
    Section(
        document="001",
        place="Correlating Tool Calls with Results, lines 392-398",
        dialects=EARLY,
        text="""
RPC1-correlation-01 A call and its result are sent at different times, and have one `toolCallId`.
RPC1-correlation-02 First the answer with the call is complete, then the tool begins and ends,
    then the message with its result is complete.
""",
    ),
    Section(
        document="001",
        place="Correlation Strategy and Display, lines 399-457",
        dialects=EARLY,
        text="""
RPC1-correlation-03 A host that notes calls at their start finds each again at its end.
RPC1-correlation-04 Name and arguments of the start, and result and error of the end, are enough
    to show a call: the result is a text, or has text blocks.
""",
    ),
    Section(
        document="001",
        place="Using turn_end, lines 458-474",
        dialects=EARLY,
        text="""
RPC1-correlation-05 turn_end alone is enough too: each call of its answer has its result there.
""",
    ),
    Section(
        document="001",
        place="Example Session, lines 475-504",
        dialects=EARLY,
        text="""
RPC1-session-01 A prompt with a tool call is reported from agent_start to agent_end as shown.
RPC1-session-02 An answer begins without blocks, with empty usage and stopReason `stop`.
RPC1-session-03 The answer with the call ends with toolUse, the last one with stop.
RPC1-session-04 The turn with the call has its result in `toolResults`, the last turn none.
""",
    ),
    Section(
        document="001",
        place="Example Client, lines 505-530",
        dialects=EARLY,
        text="""
RPC1-client-01 A host that reads lines can show the answer as it arrives, and each tool's name.
RPC1-client-02 A host that writes an abort when its user interrupts ends the answer.
""",
    ),
)

SECTIONS = (*_INPUT, *_EVENTS, *_TYPES, *_USE)
