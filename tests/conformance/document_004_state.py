"""What document 004 demands of state, models, compaction, retry and the host's shell."""

from tests.conformance.sections import ONLY_PI, Section

SECTIONS = (
    Section(
        document="004",
        place="get_state, lines 49-51",
        text="""
RPC4-state-01 `model` is the whole model object.
RPC4-state-02 `thinkingLevel` is the current level.
RPC4-state-03 `isStreaming` says whether the agent works.
RPC4-state-04 `isCompacting` says whether a compaction runs.
RPC4-state-05 `steeringMode` is the mode of the steering queue.
RPC4-state-06 `followUpMode` is the mode of the follow-up queue.
RPC4-state-07 `sessionFile` is the path of the session's file.
RPC4-state-08 `sessionId` is the id of the session.
RPC4-state-09 `sessionName` is the name given by set_session_name.
RPC4-state-10 `sessionName` is missing if the session has no name.
RPC4-state-11 `autoCompactionEnabled` says whether compaction is automatic.
RPC4-state-12 `messageCount` counts the messages of the conversation.
RPC4-state-13 `pendingMessageCount` counts the queued messages.
""",
    ),
    Section(
        document="004",
        place="get_state, line 51",
        dialects=ONLY_PI,
        text="""
RPC4-state-14 `model` is null while no model is selected.
    Ours: an object with the id `unknown`, as pi sends.
""",
    ),
    Section(
        document="004",
        place="get_messages, lines 52-55",
        text="""
RPC4-messages-01 get_messages gives all messages of the conversation in `messages`.
RPC4-messages-02 They are messages of the types that the document lists.
""",
    ),
    Section(
        document="004",
        place="set_model, lines 56-59",
        text="""
RPC4-set-model-01 set_model with `provider` and `modelId` makes that model answer from now on.
RPC4-set-model-02 `data` is the whole model object.
""",
    ),
    Section(
        document="004",
        place="cycle_model, lines 60-62",
        text="""
RPC4-cycle-model-01 cycle_model goes to the next available model.
RPC4-cycle-model-02 `data` is null when only one model is available.
RPC4-cycle-model-03 `model` is the whole model object.
RPC4-cycle-model-04 `thinkingLevel` is the level that holds now.
RPC4-cycle-model-05 `isScoped` says whether the models come from a list that the user narrowed.
""",
    ),
    Section(
        document="004",
        place="get_available_models, lines 63-66",
        text="""
RPC4-models-01 get_available_models lists all configured models in `models`.
RPC4-models-02 Each of them is a whole model object.
""",
    ),
    Section(
        document="004",
        place="set_thinking_level, lines 67-71",
        text="""
RPC4-thinking-01 set_thinking_level with `level` sets how hard a model thinks that can.
RPC4-thinking-02 The levels are off, minimal, low, medium, high and xhigh.
RPC4-thinking-03 xhigh is for models that have it; others stay at what they have.
RPC4-thinking-04 The reply reports success and has no data.
""",
    ),
    Section(
        document="004",
        place="cycle_thinking_level, lines 72-74",
        text="""
RPC4-cycle-thinking-01 cycle_thinking_level goes through the levels that the model has.
RPC4-cycle-thinking-02 `data` is null when the model does not think.
RPC4-cycle-thinking-03 `level` is the level that holds now.
""",
    ),
    Section(
        document="004",
        place="compact, lines 86-90",
        text="""
RPC4-compact-01 compact replaces old messages by a summary, so that the context needs fewer tokens.
RPC4-compact-02 `customInstructions` are instructions for the summarising model.
RPC4-compact-03 `customInstructions` may be left out.
RPC4-compact-04 `summary` is the text of the summary.
RPC4-compact-05 `firstKeptEntryId` names the first entry that is kept.
RPC4-compact-06 `tokensBefore` is the size of the context before.
RPC4-compact-07 `estimatedTokensAfter` estimates the messages as they are rebuilt afterwards.
RPC4-compact-08 `details` is an object with more about the compaction.
""",
    ),
    Section(
        document="004",
        place="set_auto_compaction, lines 91-94",
        text="""
RPC4-auto-compaction-01 With `enabled` true a context that is almost full is compacted
    automatically.
RPC4-auto-compaction-02 With `enabled` false it is not.
RPC4-auto-compaction-03 The reply reports success and has no data.
""",
    ),
    Section(
        document="004",
        place="set_auto_retry, lines 94-97",
        text="""
RPC4-auto-retry-01 With `enabled` true an overloaded model is asked again.
RPC4-auto-retry-02 With `enabled` true a rate limit leads to another attempt.
RPC4-auto-retry-03 With `enabled` true an error 5xx leads to another attempt.
RPC4-auto-retry-04 With `enabled` false none of them does.
RPC4-auto-retry-05 The reply reports success and has no data.
""",
    ),
    Section(
        document="004",
        place="abort_retry, lines 97-100",
        text="""
RPC4-abort-retry-01 abort_retry ends the wait for another attempt.
RPC4-abort-retry-02 No other attempt is made then.
RPC4-abort-retry-03 The reply reports success and has no data.
""",
    ),
    Section(
        document="004",
        place="bash, lines 100-109",
        text="""
RPC4-bash-01 bash runs `command` in a shell.
RPC4-bash-02 `output` is what the command wrote.
RPC4-bash-03 `exitCode` is its exit code.
RPC4-bash-04 `cancelled` says whether it was stopped.
RPC4-bash-05 `truncated` says whether the output was cut.
RPC4-bash-06 `fullOutputPath` names a file with all of a cut output.
RPC4-bash-07 `fullOutputPath` is missing when nothing was cut.
RPC4-bash-08 The command runs at once, also during a run, and its result is the reply.
RPC4-bash-09 A message of role bashExecution is kept in the conversation.
RPC4-bash-10 No message event is sent for it.
RPC4-bash-11 The model is not asked because of it.
RPC4-bash-12 With the next prompt the model reads it as a user's message.
RPC4-bash-13 That message says which command ran and holds its output in a fence of backticks.
RPC4-bash-14 Several commands before a prompt all reach the model.
""",
    ),
    Section(
        document="004",
        place="abort_bash, lines 110-113",
        text="""
RPC4-abort-bash-01 abort_bash stops a running command of the host.
RPC4-abort-bash-02 The reply reports success and has no data.
""",
    ),
)
