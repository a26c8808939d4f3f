"""What document 000, xcsh's protocol reference in Korean, demands of frames, commands and state."""

from tests.conformance.sections import XCSH, Section

SECTIONS = (
    Section(
        document="000",
        place="Introduction, lines 5-8",
        dialects=XCSH,
        text="""
RPC0-overview-01 In RPC mode the agent speaks JSON, a line each, on stdin and stdout.
RPC0-overview-02 stdin takes commands and answers to the questions of extensions.
RPC0-overview-03 stdout carries replies, events, and questions of extensions.
""",
    ),
    Section(
        document="000",
        place="Launch, lines 18-27",
        dialects=XCSH,
        text="""
RPC0-launch-01 `--mode rpc` can be combined with the usual command-line options.
RPC0-launch-02 `@file` arguments are refused.
RPC0-launch-03 No title is made for the session: the model is not called for one.
RPC0-launch-04 Settings of todo, task and async that change how work is done are reset.
    Ours: xcsh's defaults apply unless the user chose other values, as in newer oh-my-pi.
RPC0-launch-05 stdin is read as lines of JSON.
RPC0-launch-06 When stdin is closed the process ends with exit code 0.
RPC0-launch-07 Each reply and each event is one JSON object on one line.
""",
    ),
    Section(
        document="000",
        place="Framing, lines 29-31",
        dialects=XCSH,
        text="""
RPC0-framing-01 A frame is one JSON object and a line feed.
RPC0-framing-02 Nothing is wrapped around the object.
""",
    ),
    Section(
        document="000",
        place="Frames on stdout, lines 33-39",
        dialects=XCSH,
        text="""
RPC0-out-01 A reply has the type `response`.
RPC0-out-02 An event of the session stands there as itself, by its own type.
RPC0-out-03 A question of an extension has the type `extension_ui_request`.
RPC0-out-04 A failure of an extension is `extension_error` with `extensionPath`, `event`, `error`.
""",
    ),
    Section(
        document="000",
        place="Frames on stdin, lines 41-45",
        dialects=XCSH,
        text="""
RPC0-in-01 A frame on stdin is a command, named by `type`.
RPC0-in-02 Or it is an `extension_ui_response`, which has no reply.
""",
    ),
    Section(
        document="000",
        place="Ids, lines 47-56",
        dialects=XCSH,
        text="""
RPC0-id-01 Every command takes an `id`, and needs none.
RPC0-id-02 The reply to a command carries its id.
RPC0-id-03 The reply to an unknown command has no id, although the command had one.
RPC0-id-04 A line that cannot be parsed is answered as `parse`, without an id.
RPC0-id-05 A handler that fails on what it was given is answered as `parse`, without an id.
RPC0-id-06 prompt is answered at once; if it cannot start, an error with the same id follows.
RPC0-id-07 abort_and_prompt is answered with success; an error with the same id may follow.
    Ours: the answer comes when the run has stopped, as measured.
""",
    ),
    Section(
        document="000",
        place="Commands, lines 58-66",
        dialects=XCSH,
        text="""
RPC0-command-01 prompt takes `message`, `images` and `streamingBehavior`.
RPC0-command-02 steer takes `message` and `images`.
RPC0-command-03 follow_up takes `message` and `images`.
RPC0-command-04 abort takes nothing.
RPC0-command-05 abort_and_prompt takes `message` and `images`.
RPC0-command-06 new_session takes `parentSession`.
RPC0-command-07 get_state takes nothing.
""",
    ),
    Section(
        document="000",
        place="Commands, lines 67-76",
        dialects=XCSH,
        text="""
RPC0-command-08 set_todos takes `phases`.
RPC0-command-09 set_host_tools takes `tools`.
RPC0-command-10 set_model takes `provider` and `modelId`.
RPC0-command-11 cycle_model takes nothing.
RPC0-command-12 get_available_models takes nothing.
RPC0-command-13 set_thinking_level takes `level`.
RPC0-command-14 cycle_thinking_level takes nothing.
RPC0-command-15 set_steering_mode takes `mode`, `all` or `one-at-a-time`.
RPC0-command-16 set_follow_up_mode takes `mode`, `all` or `one-at-a-time`.
RPC0-command-17 set_interrupt_mode takes `mode`, `immediate` or `wait`.
    Ours: another mode is refused, where xcsh stores it.
""",
    ),
    Section(
        document="000",
        place="Commands, lines 77-90",
        dialects=XCSH,
        text="""
RPC0-command-18 compact takes `customInstructions`.
RPC0-command-19 set_auto_compaction takes `enabled`.
RPC0-command-20 set_auto_retry takes `enabled`.
RPC0-command-21 abort_retry takes nothing.
RPC0-command-22 bash takes `command`.
RPC0-command-23 abort_bash takes nothing.
    Ours: it acts while the command runs; in xcsh it waits behind it.
RPC0-command-24 get_session_stats takes nothing.
RPC0-command-25 export_html takes `outputPath`.
RPC0-command-26 switch_session takes `sessionPath`.
RPC0-command-27 branch takes `entryId`.
RPC0-command-28 get_branch_messages takes nothing.
RPC0-command-29 get_last_assistant_text takes nothing.
RPC0-command-30 set_session_name takes `name`.
RPC0-command-31 get_messages takes nothing.
""",
    ),
    Section(
        document="000",
        place="Replies, lines 92-97",
        dialects=XCSH,
        text="""
RPC0-reply-01 The result of every command is a reply that names it in `command`.
RPC0-reply-02 A success has `success` true, and `data` where the command returns something.
RPC0-reply-03 A failure has `success` false and a text in `error`.
RPC0-reply-04 What `data` holds depends on the command.
""",
    ),
    Section(
        document="000",
        place="get_state, lines 99-126",
        dialects=XCSH,
        text="""
RPC0-state-01 `model` is an object with `provider` and `id`.
RPC0-state-02 `thinkingLevel` is off, minimal, low, medium, high or xhigh.
RPC0-state-03 `isStreaming` says whether the agent works.
RPC0-state-04 `isCompacting` says whether a compaction runs.
RPC0-state-05 `steeringMode` and `followUpMode` are `all` or `one-at-a-time`.
RPC0-state-06 `interruptMode` is `immediate` or `wait`.
RPC0-state-07 `sessionFile` and `sessionId` name the session.
RPC0-state-08 `sessionName` is the name given to it.
RPC0-state-09 `autoCompactionEnabled` says whether compaction is automatic.
RPC0-state-10 `messageCount` counts the messages of the conversation.
RPC0-state-11 `queuedMessageCount` counts the messages that wait.
RPC0-state-12 `todoPhases` is the plan: phases with id, name and tasks with id, content and status.
""",
    ),
    Section(
        document="000",
        place="set_todos, lines 128-153",
        dialects=XCSH,
        text="""
RPC0-todos-01 set_todos replaces the plan of the session.
RPC0-todos-02 The reply holds the phases as they were understood, made whole.
    Ours: in `todoPhases`; ids that are missing are filled in, an unknown status is refused.
RPC0-todos-03 A host can set the plan before the first prompt.
""",
    ),
    Section(
        document="000",
        place="set_host_tools, lines 155-183",
        dialects=XCSH,
        text="""
RPC0-set-tools-01 set_host_tools replaces the tools of the host.
RPC0-set-tools-02 A tool has `name`, `label`, `description` and a JSON schema in `parameters`.
RPC0-set-tools-03 The reply has the names in `toolNames`.
RPC0-set-tools-04 The tools are there for the next call of the model.
RPC0-set-tools-05 Another set_host_tools takes away those that it does not name.
""",
    ),
)
