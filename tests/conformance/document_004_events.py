"""What document 004 demands of events and of the objects in them."""

from tests.conformance.sections import ONLY_PI, Section

SECTIONS = (
    Section(
        document="004",
        place="Events, line 151",
        text="""
RPC4-events-01 Events are written as JSON lines while the agent works.
RPC4-events-02 The events that the document lists carry no `id`; replies do.
""",
    ),
    Section(
        document="004",
        place="agent_start and agent_end, lines 155-156 and 171-175",
        text="""
RPC4-agent-01 `agent_start` reports that the agent begins with a prompt.
RPC4-agent-02 `agent_end` reports that the agent is done.
RPC4-agent-03 `messages` of agent_end holds all messages that this run has brought, and no others.
""",
    ),
    Section(
        document="004",
        place="turn_start / turn_end, lines 157-158 and 176-177",
        text="""
RPC4-turn-01 `turn_start` reports that a turn begins.
RPC4-turn-02 A turn is one answer with its tool calls and their results.
RPC4-turn-03 `message` of turn_end is the answer.
RPC4-turn-04 `toolResults` of turn_end holds the results of its tool calls.
""",
    ),
    Section(
        document="004",
        place="message_start / message_end, lines 159-161 and 178-179",
        text="""
RPC4-message-01 `message_start` reports that a message begins, and holds it in `message`.
RPC4-message-02 `message_end` reports that a message is complete, and holds it in `message`.
RPC4-message-03 Both are sent for user messages, answers and tool results.
""",
    ),
    Section(
        document="004",
        place="message_update, lines 180-197",
        text="""
RPC4-update-01 `message_update` is sent while an answer arrives, with `assistantMessageEvent`.
RPC4-update-02 Generation of a message (`start`) begins with message_start.
RPC4-update-03 `text_start` reports that a text block begins.
RPC4-update-04 `text_delta` holds a piece of text in `delta`.
RPC4-update-05 `text_end` reports that a text block is complete and holds its `content`.
RPC4-update-06 `thinking_start` reports that a thinking block begins.
RPC4-update-07 `thinking_delta` holds a piece of thinking in `delta`.
RPC4-update-08 `thinking_end` reports that a thinking block is complete.
RPC4-update-09 `toolcall_start` reports that a tool call begins.
RPC4-update-10 `toolcall_delta` holds a piece of the arguments in `delta`.
RPC4-update-11 `toolcall_end` holds the whole call in `toolCall`.
RPC4-update-12 `contentIndex` says which block of the message is meant.
RPC4-update-13 A complete message (`done`) is reported with its reason: stop, length or toolUse.
RPC4-update-14 A failed message (`error`) is reported with its reason: aborted or error.
""",
    ),
    Section(
        document="004",
        place="message_update, lines 180-181 and 197",
        dialects=ONLY_PI,
        text="""
RPC4-update-15 `message` of message_update is the message so far.
RPC4-update-16 `partial` of every assistantMessageEvent is the message so far.
""",
    ),
    Section(
        document="004",
        place="tool_execution_start / _update / _end, lines 162-164 and 198-201",
        text="""
RPC4-tool-01 `tool_execution_start` reports that a tool begins.
RPC4-tool-02 It has `toolCallId`, `toolName` and `args`.
RPC4-tool-03 `tool_execution_update` reports output while the tool runs.
RPC4-tool-04 It has `toolCallId`, `toolName`, `args` and `partialResult`.
RPC4-tool-05 `partialResult` has `content`, and `details` once there is output.
RPC4-tool-06 `partialResult` holds all output so far, not only what is new.
RPC4-tool-07 Once output is cut, `details` has `truncation` and `fullOutputPath`.
RPC4-tool-08 `tool_execution_end` reports that the tool is done.
RPC4-tool-09 It has `toolCallId`, `toolName`, `result` and `isError`.
RPC4-tool-10 `result` has `content`, and `details` where the tool has some.
RPC4-tool-11 `isError` says whether the tool failed.
RPC4-tool-12 The events of one call have the same `toolCallId`, that of the call in the answer.
""",
    ),
    Section(
        document="004",
        place="queue_update, lines 165 and 202-204",
        text="""
RPC4-queue-01 `queue_update` is sent whenever a queue has changed.
RPC4-queue-02 `steering` holds the texts that wait in the steering queue.
RPC4-queue-03 `followUp` holds the texts that wait in the follow-up queue.
""",
    ),
    Section(
        document="004",
        place="compaction_start / compaction_end, lines 166-167 and 205-209",
        text="""
RPC4-compaction-01 Both are sent for compactions by command and for automatic ones.
RPC4-compaction-02 `reason` is `manual` for a command.
RPC4-compaction-03 `reason` is `threshold` when the context was almost full.
RPC4-compaction-04 `reason` is `overflow` when the model refused a context that was too long.
RPC4-compaction-05 `result` has summary, firstKeptEntryId, tokensBefore, estimatedTokensAfter and
    details.
RPC4-compaction-06 `aborted` and `willRetry` are false after a plain success.
RPC4-compaction-07 After a successful compaction for overflow `willRetry` is true.
RPC4-compaction-08 After a successful compaction for overflow the prompt is retried automatically.
RPC4-compaction-09 `aborted` is true for a compaction that was stopped.
RPC4-compaction-10 `aborted` is false for one that failed, and `errorMessage` is the reason.
""",
    ),
    Section(
        document="004",
        place="compaction_end, lines 208-209",
        dialects=ONLY_PI,
        text="""
RPC4-compaction-11 `result` is null for a compaction that was stopped.
RPC4-compaction-12 `result` is null for a compaction that failed.
""",
    ),
    Section(
        document="004",
        place="auto_retry_start / auto_retry_end, lines 168-169 and 210-213",
        text="""
RPC4-retry-01 `auto_retry_start` is sent when a temporary failure leads to a retry.
RPC4-retry-02 `attempt` is the number of the attempt.
RPC4-retry-03 `maxAttempts` is the most attempts that are made.
RPC4-retry-04 `delayMs` is the wait before it.
RPC4-retry-05 `errorMessage` is what the provider said.
RPC4-retry-06 `auto_retry_end` with `success` true is sent when a retry has succeeded.
RPC4-retry-07 `attempt` of auto_retry_end is the number of the last attempt.
RPC4-retry-08 With `success` false it is sent when the last attempt has failed.
RPC4-retry-09 `finalError` is then what the provider said last.
""",
    ),
    Section(
        document="004",
        place="Model, lines 260-261",
        text="""
RPC4-model-01 A model has id, name, api, provider and baseUrl.
RPC4-model-02 `reasoning` says whether it thinks.
RPC4-model-03 `input` lists what it takes: text, image.
RPC4-model-04 `contextWindow` and `maxTokens` are its limits.
RPC4-model-05 `cost` has the prices of input, output, cacheRead and cacheWrite.
""",
    ),
    Section(
        document="004",
        place="UserMessage and Attachment, lines 262-263 and 269",
        text="""
RPC4-user-01 A user's message has `role` user, `content` and `timestamp` in milliseconds.
RPC4-user-02 `content` is a text or a list of text and image blocks.
RPC4-user-03 An attachment (id, type, fileName, mimeType, size, content, extractedText, preview)
    is taken with a prompt: an image is shown to the model, a document is read to it.
""",
    ),
    Section(
        document="004",
        place="AssistantMessage, lines 263-264",
        text="""
RPC4-assistant-01 An answer has `role` assistant and a list of blocks in `content`.
RPC4-assistant-02 A text block has `type` text and `text`.
RPC4-assistant-03 A thinking block has `type` thinking and `thinking`.
RPC4-assistant-04 A call has `type` toolCall, `id`, `name` and `arguments`.
RPC4-assistant-05 `api`, `provider` and `model` identify the model.
RPC4-assistant-06 `usage` has input, output, cacheRead and cacheWrite in tokens.
RPC4-assistant-07 `usage.cost` has input, output, cacheRead, cacheWrite and total.
RPC4-assistant-08 `stopReason` is one of stop, length, toolUse, error and aborted.
RPC4-assistant-09 `timestamp` is in milliseconds.
""",
    ),
    Section(
        document="004",
        place="ToolResultMessage, lines 265-266",
        text="""
RPC4-result-01 A tool's result has `role` toolResult, `toolCallId` and `toolName`.
RPC4-result-02 `content` is a list of blocks, `isError` reports failure, `timestamp` is the time.
""",
    ),
    Section(
        document="004",
        place="BashExecutionMessage, lines 267-268",
        text="""
RPC4-execution-01 A command of the host has `role` bashExecution, `command` and `output`.
RPC4-execution-02 `exitCode`, `cancelled` and `truncated` describe how it ended.
RPC4-execution-03 `fullOutputPath` names the file with the whole output if it was cut; `timestamp`
    is the time.
""",
    ),
)
