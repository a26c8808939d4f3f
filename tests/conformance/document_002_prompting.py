"""What document 002, oh-my-pi's RPC documentation, demands of start, prompts, state and modes."""

from tests.conformance.sections import OMP, Section

SECTIONS = (
    Section(
        document="002",
        place="RPC Mode and its note, lines 1-3",
        dialects=OMP,
        text="""
RPC2-intro-01 RPC mode runs the agent without a screen, by JSON over stdin and stdout.
RPC2-intro-02 A program can have the agent inside itself instead.
    Ours: by `create_session`, in Python.
RPC2-intro-03 There is a typed client that starts the program.
    Ours: `ludolf.client`, in Python; it speaks this dialect too.
RPC2-intro-04 The host may begin at once.
    Ours: `ready` and `available_commands_update` come first, as measured; hosts that wait for
    `ready` are served too.
""",
    ),
    Section(
        document="002",
        place="Starting RPC Mode, lines 4-12",
        dialects=OMP,
        text="""
RPC2-start-01 `--mode rpc` starts RPC mode.
RPC2-start-02 `--provider` sets the provider of the model.
RPC2-start-03 `--model` sets the model by its id.
RPC2-start-04 `--no-session` stores no session.
RPC2-start-05 `--session-dir` stores sessions in that folder.
RPC2-start-06 The process lives as long as its stdin.
    Ours: a run that the end of input interrupts is reported as aborted; in omp its end is lost.
""",
    ),
    Section(
        document="002",
        place="Protocol Overview, lines 13-18",
        dialects=OMP,
        text="""
RPC2-overview-01 A command is one JSON object on one line of stdin.
RPC2-overview-02 A reply has the type `response` and reports success or failure.
RPC2-overview-03 Events are JSON lines on stdout.
RPC2-overview-04 The output can be read as JSON lines as a whole, and piece by piece as it comes.
RPC2-overview-05 A command takes an `id` and needs none.
RPC2-overview-06 The reply carries the id of its command.
""",
    ),
    Section(
        document="002",
        place="prompt, lines 21-39",
        dialects=OMP,
        text="""
RPC2-prompt-01 prompt gives `message` to the agent as what the user says.
RPC2-prompt-02 The reply comes at once; events follow it.
RPC2-prompt-03 `images` may hold images, and may be left out.
RPC2-prompt-04 An image has its base64 and `mediaType` in `source`.
RPC2-prompt-05 An image may be named by a URL in `source`.
    Ours: refused, since not every provider fetches it; the host sends it as base64.
RPC2-prompt-06 The reply reports success and has no data.
RPC2-prompt-07 During a run `streamingBehavior` `steer` queues the message as steering.
RPC2-prompt-08 During a run `streamingBehavior` `followUp` queues it for afterwards.
RPC2-prompt-09 During a run one of them must be set.
    Ours: without it a second reply with the same id refuses the prompt, as measured.
""",
    ),
    Section(
        document="002",
        place="steer, lines 40-48",
        dialects=OMP,
        text="""
RPC2-steer-01 steer queues a message that reaches the agent in the midst of its run.
RPC2-steer-02 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="follow_up, lines 49-59",
        dialects=OMP,
        text="""
RPC2-follow-up-01 follow_up queues a message that is dealt with when the run is done.
RPC2-follow-up-02 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="abort, lines 60-68",
        dialects=OMP,
        text="""
RPC2-abort-01 abort stops what the agent does.
RPC2-abort-02 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="new_session, lines 69-85",
        dialects=OMP,
        text="""
RPC2-new-session-01 new_session starts an empty session.
RPC2-new-session-02 `parentSession` is kept in the new session.
RPC2-new-session-03 `cancelled` is false if no extension objected.
RPC2-new-session-04 A session_before_switch handler of an extension can cancel it.
RPC2-new-session-05 `cancelled` is true then, and the session stays.
""",
    ),
    Section(
        document="002",
        place="get_state, lines 87-115",
        dialects=OMP,
        text="""
RPC2-state-01 `model` is the whole model object.
RPC2-state-02 `model` is null while there is none.
RPC2-state-03 `thinkingLevel` is the current level.
RPC2-state-04 `isStreaming` says whether the agent works.
RPC2-state-05 `isCompacting` says whether a compaction runs.
RPC2-state-06 `steeringMode` and `followUpMode` are the modes of the queues.
RPC2-state-07 `interruptMode` is `immediate` at first.
RPC2-state-08 `sessionFile` and `sessionId` name the session.
RPC2-state-09 `sessionName` is the name given to it.
RPC2-state-10 `autoCompactionEnabled` says whether compaction is automatic.
RPC2-state-11 `messageCount` counts the messages of the conversation.
RPC2-state-12 `queuedMessageCount` counts the messages that wait.
""",
    ),
    Section(
        document="002",
        place="get_messages, lines 116-130",
        dialects=OMP,
        text="""
RPC2-messages-01 get_messages gives all messages of the conversation in `messages`.
RPC2-messages-02 They are messages of the types that the document lists.
""",
    ),
    Section(
        document="002",
        place="set_model, lines 132-145",
        dialects=OMP,
        text="""
RPC2-set-model-01 set_model with `provider` and `modelId` makes that model answer from now on.
RPC2-set-model-02 `data` is the whole model object.
""",
    ),
    Section(
        document="002",
        place="cycle_model, lines 146-164",
        dialects=OMP,
        text="""
RPC2-cycle-model-01 cycle_model goes to the next available model.
RPC2-cycle-model-02 `data` is null when only one model is available.
RPC2-cycle-model-03 `data` has the whole `model`, `thinkingLevel` and `isScoped`.
""",
    ),
    Section(
        document="002",
        place="get_available_models, lines 165-180",
        dialects=OMP,
        text="""
RPC2-models-01 get_available_models lists all configured models in `models`.
RPC2-models-02 Each of them is a whole model object.
""",
    ),
    Section(
        document="002",
        place="set_thinking_level, lines 182-192",
        dialects=OMP,
        text="""
RPC2-thinking-01 set_thinking_level with `level` sets how hard a model thinks that can.
RPC2-thinking-02 The levels are off, minimal, low, medium, high and xhigh.
RPC2-thinking-03 xhigh is for models that have it; others stay at what they have.
RPC2-thinking-04 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="cycle_thinking_level, lines 193-206",
        dialects=OMP,
        text="""
RPC2-cycle-thinking-01 cycle_thinking_level goes through the levels that the model has.
RPC2-cycle-thinking-02 `data` is null when the model does not think.
RPC2-cycle-thinking-03 `level` is the level that holds now.
""",
    ),
    Section(
        document="002",
        place="set_steering_mode, lines 208-219",
        dialects=OMP,
        text="""
RPC2-steering-mode-01 With `all` the next turn begins with all steering messages.
RPC2-steering-mode-02 With `one-at-a-time` a turn begins with one of them.
RPC2-steering-mode-03 `one-at-a-time` is the default.
RPC2-steering-mode-04 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="set_follow_up_mode, lines 220-231",
        dialects=OMP,
        text="""
RPC2-follow-up-mode-01 With `all` the next turn begins with all follow-up messages.
RPC2-follow-up-mode-02 With `one-at-a-time` a turn begins with one of them.
RPC2-follow-up-mode-03 `one-at-a-time` is the default.
RPC2-follow-up-mode-04 The reply reports success and has no data.
""",
    ),
    Section(
        document="002",
        place="set_interrupt_mode, lines 232-243",
        dialects=OMP,
        text="""
RPC2-interrupt-mode-01 With `immediate` a steering message interrupts the turn.
    Ours: as measured, running tools finish and calls not yet begun are skipped; an answer
    that streams is never cut.
RPC2-interrupt-mode-02 With `wait` the calls under way are completed first.
RPC2-interrupt-mode-03 The reply reports success and has no data.
""",
    ),
)
