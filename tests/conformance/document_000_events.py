"""What document 000 demands of events, prompts, dialogs, host tools, errors and clients."""

from tests.conformance.sections import XCSH, Section

SECTIONS = (
    Section(
        document="000",
        place="Events, lines 185-203",
        dialects=XCSH,
        text="""
RPC0-event-01 Events of the session are passed on as they happen.
RPC0-event-02 `agent_start` and `agent_end` enclose the work on a prompt.
RPC0-event-03 `turn_start` and `turn_end` enclose a turn.
RPC0-event-04 `message_start`, `message_update` and `message_end` report a message.
RPC0-event-05 `tool_execution_start`, `_update` and `_end` report a tool.
RPC0-event-06 `auto_compaction_start` and `_end` report an automatic compaction.
RPC0-event-07 `auto_retry_start` and `_end` report retries.
RPC0-event-08 `ttsr_triggered` reports that an answer broke a stream rule.
RPC0-event-09 `todo_reminder` reports that the model was reminded of open tasks.
    Ours: not twice without a tool used in between, and not after a question to the user.
RPC0-event-10 `todo_auto_clear` reports that finished tasks have left the plan.
RPC0-event-11 A failure of an extension is reported separately, as `extension_error`.
RPC0-event-12 `assistantMessageEvent` of message_update holds pieces of text, thinking and calls.
""",
    ),
    Section(
        document="000",
        place="Prompt and completion, lines 205-221",
        dialects=XCSH,
        text="""
RPC0-prompt-01 prompt is answered before it has been worked on.
RPC0-prompt-02 abort_and_prompt is answered before the new prompt has been worked on.
RPC0-prompt-03 An accepted command is not a finished one.
RPC0-prompt-04 `agent_end` marks its end, once for each prompt.
RPC0-prompt-05 While the agent works a prompt needs `streamingBehavior`.
RPC0-prompt-06 `steer` puts it into the queue that interrupts.
RPC0-prompt-07 `followUp` puts it into the queue that waits for the end.
RPC0-prompt-08 Without either the prompt fails.
""",
    ),
    Section(
        document="000",
        place="Defaults and modes, lines 223-233",
        dialects=XCSH,
        text="""
RPC0-mode-01 Steering messages are delivered one at a time unless it is set otherwise.
RPC0-mode-02 Follow-up messages are delivered one at a time unless it is set otherwise.
RPC0-mode-03 The interrupt mode is `wait` unless it is set otherwise.
RPC0-mode-04 `one-at-a-time` takes one message from the queue for each turn.
RPC0-mode-05 `all` takes the whole queue at once.
RPC0-mode-06 With `immediate` a waiting message is looked for between tool calls, and the rest
    of the calls may be left undone.
    Ours: calls that run finish with their results, as in newer oh-my-pi; those that have not
    begun are skipped.
RPC0-mode-07 With `wait` steering is delivered when the turn is complete.
""",
    ),
    Section(
        document="000",
        place="Extension UI, lines 235-256",
        dialects=XCSH,
        text="""
RPC0-ui-01 An extension asks by a request frame, the host answers by a response frame.
RPC0-ui-02 select, confirm, input and editor wait for an answer.
RPC0-ui-03 notify, setStatus, setWidget and set_editor_text wait for none.
RPC0-ui-04 setTitle is kept back.
RPC0-ui-05 With `PI_RPC_EMIT_TITLE=1` setTitle is sent.
RPC0-ui-06 A confirm has `id`, `method`, `title`, `message`, and `timeout` where there is one.
RPC0-ui-07 An answer by `value` has the `id` of the request.
RPC0-ui-08 An answer by `confirmed` is true or false.
RPC0-ui-09 An answer by `cancelled` withdraws from the dialog.
RPC0-ui-10 A dialog whose time is up gives its default.
RPC0-ui-11 A dialog that is broken off gives its default.
""",
    ),
    Section(
        document="000",
        place="Host tools, lines 258-298",
        dialects=XCSH,
        text="""
RPC0-host-tool-01 A host registers tools with set_host_tools and runs them over the same pipes.
RPC0-host-tool-02 A call is `host_tool_call` with `id`, `toolCallId`, `toolName` and `arguments`.
    Ours: behind `tool_execution_start`; in xcsh it may come before.
RPC0-host-tool-03 When a call is aborted, `host_tool_cancel` names it in `targetId`; its own
    `id` is another.
RPC0-host-tool-04 The host may send progress by `host_tool_update` with `partialResult`.
RPC0-host-tool-05 The host ends a call by `host_tool_result` with `result`.
RPC0-host-tool-06 `isError` true makes the result an error of the tool.
""",
    ),
    Section(
        document="000",
        place="Errors and recovery, lines 300-307",
        dialects=XCSH,
        text="""
RPC0-error-01 A failed command has `success` false and its text in `error`.
RPC0-error-02 set_model with an unknown model says `Model not found: provider/model`.
RPC0-error-03 After a failed command the process continues.
RPC0-error-04 After a line that is not JSON the next lines are read.
RPC0-error-05 set_session_name without a name is refused: `Session name cannot be empty`.
RPC0-error-06 An answer to a dialog that is not open is ignored.
RPC0-error-07 The process ends when stdin is closed.
RPC0-error-08 The process ends when an extension asks for it.
""",
    ),
    Section(
        document="000",
        place="Examples, lines 309-340",
        dialects=XCSH,
        text="""
RPC0-example-01 A prompt leads to its reply, agent_start, updates with the message, and agent_end.
RPC0-example-02 A prompt with `followUp` is accepted while another is worked on.
RPC0-example-03 get_state and two settings sent together are answered each under its id.
RPC0-example-04 An input dialog shows title and placeholder, and takes a text for its id.
""",
    ),
    Section(
        document="000",
        place="The client, lines 342-352",
        dialects=XCSH,
        text="""
RPC0-client-01 A client starts the program with `--mode rpc` and talks to it.
    Ours: `ready` comes first, with the version; the clients of the family wait for it.
RPC0-client-02 It finds replies again by ids of its own making, `req_1` and so on.
RPC0-client-03 It passes on events of the types that it knows, and no others.
RPC0-client-04 It answers host_tool_call automatically, and stops at host_tool_cancel.
RPC0-client-05 What it has no words for can be sent as plain frames.
""",
    ),
)
