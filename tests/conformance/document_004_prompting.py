"""What document 004, pi's RPC documentation, demands of starting, framing and prompting."""

from tests.conformance.sections import Section

SECTIONS = (
    Section(
        document="004",
        place="RPC モードの起動, lines 1-6",
        text="""
RPC4-start-01 `--mode rpc` starts a headless agent that is driven by JSON over stdin and stdout.
RPC4-start-02 `--provider` sets the provider of the model.
RPC4-start-03 `--model` takes the id of a model.
RPC4-start-04 `--model` takes a pattern that fits a model.
RPC4-start-05 `--model` takes `provider/id`.
RPC4-start-06 `:level` behind the model sets the thinking level.
RPC4-start-07 `--name` names the session from the start.
RPC4-start-08 `-n` is short for `--name`.
RPC4-start-09 `--no-session` stores no session.
RPC4-start-10 `--session-dir` stores sessions in that folder.
""",
    ),
    Section(
        document="004",
        place="プロトコル概要, lines 7-11",
        text="""
RPC4-overview-01 A command is one JSON object on one line of stdin.
RPC4-overview-02 A reply is a JSON object of type `response` that reports success or failure.
RPC4-overview-03 Events are written to stdout as JSON lines while the agent works.
RPC4-overview-04 Every command takes an `id`, and its reply carries the same.
RPC4-overview-05 The `id` is optional: a command without one gets a reply without one.
""",
    ),
    Section(
        document="004",
        place="フレーミング, lines 12-18",
        text="""
RPC4-framing-01 On stdin only LF ends a record.
RPC4-framing-02 On stdout every record is one line that ends with one LF.
RPC4-framing-03 CR LF is taken as the end of an input record; the CR is dropped.
RPC4-framing-04 U+2028 and U+2029 in a string of a command are data, not the end of a record.
RPC4-framing-05 U+2028 and U+2029 in a record on stdout do not end it.
""",
    ),
    Section(
        document="004",
        place="prompt, lines 19-29",
        text="""
RPC4-prompt-01 prompt gives `message` to the agent as what the user says.
RPC4-prompt-02 The reply comes once the prompt is accepted, queued or handled, before its events.
RPC4-prompt-03 After the reply events go on while the host may send further commands.
RPC4-prompt-04 `images` are sent to the model with the text.
RPC4-prompt-05 `images` may be left out.
RPC4-prompt-06 An image is an object of type `image` with base64 `data` and `mimeType`.
RPC4-prompt-07 `streamingBehavior` queues a prompt that comes during a run.
RPC4-prompt-08 `steer` delivers it after the tool calls of the current turn are done.
RPC4-prompt-09 `steer` delivers it before the next call of the model.
RPC4-prompt-10 `followUp` delivers it only when the agent has stopped.
RPC4-prompt-11 During a run a prompt without `streamingBehavior` is an error.
RPC4-prompt-12 `/skill:name` is replaced by the skill before it is sent.
RPC4-prompt-13 `/template` is replaced by the template before it is sent.
RPC4-prompt-14 Skills and templates are replaced before a prompt is queued.
RPC4-prompt-15 The reply has `type`, `command`, `success` and the `id` of the command.
RPC4-prompt-16 `success` is true for a prompt that was accepted and for one that was queued.
RPC4-prompt-17 `success` is false for a prompt that was refused, and nothing of it happens.
RPC4-prompt-18 A failure after acceptance is reported by events and messages.
RPC4-prompt-19 A failure after acceptance brings no second reply with the same `id`.
""",
    ),
    Section(
        document="004",
        place="steer, lines 30-34",
        text="""
RPC4-steer-01 steer queues `message` while the agent works.
RPC4-steer-02 It is delivered after the tool calls of the current turn are done.
RPC4-steer-03 It is delivered before the next call of the model.
RPC4-steer-04 `/skill:name` is replaced by the skill.
RPC4-steer-05 `/template` is replaced by the template.
RPC4-steer-06 `images` go along in the form that prompt takes.
RPC4-steer-07 `images` may be left out.
RPC4-steer-08 The reply has `type`, `command` and `success`.
""",
    ),
    Section(
        document="004",
        place="follow_up, lines 35-40",
        text="""
RPC4-follow-up-01 follow_up queues `message` for the time after the agent is done.
RPC4-follow-up-02 It is delivered only when no tool calls are left.
RPC4-follow-up-03 It is delivered only when no steering messages are left.
RPC4-follow-up-04 `/skill:name` is replaced by the skill.
RPC4-follow-up-05 `/template` is replaced by the template.
RPC4-follow-up-06 `images` go along in the form that prompt takes.
RPC4-follow-up-07 `images` may be left out.
RPC4-follow-up-08 The reply has `type`, `command` and `success`.
""",
    ),
    Section(
        document="004",
        place="abort, lines 41-43",
        text="""
RPC4-abort-01 abort stops what the agent is doing.
RPC4-abort-02 The reply reports success and has no data.
""",
    ),
    Section(
        document="004",
        place="set_steering_mode, lines 75-80",
        text="""
RPC4-steering-mode-01 set_steering_mode takes `mode` and decides how steering is delivered.
RPC4-steering-mode-02 `all` delivers all of it once the tool calls of the turn are done.
RPC4-steering-mode-03 `one-at-a-time` delivers one message with each finished turn.
RPC4-steering-mode-04 `one-at-a-time` is the default.
RPC4-steering-mode-05 The reply reports success and has no data.
""",
    ),
    Section(
        document="004",
        place="set_follow_up_mode, lines 80-85",
        text="""
RPC4-follow-up-mode-01 set_follow_up_mode takes `mode` and decides how follow-ups are delivered.
RPC4-follow-up-mode-02 `all` delivers all of them when the agent is done.
RPC4-follow-up-mode-03 `one-at-a-time` delivers one each time the agent is done.
RPC4-follow-up-mode-04 `one-at-a-time` is the default.
RPC4-follow-up-mode-05 The reply reports success and has no data.
""",
    ),
    Section(
        document="004",
        place="Errors, lines 257-259",
        text="""
RPC4-errors-01 A command that fails is answered with `success` false and a text in `error`.
RPC4-errors-02 The reply names the command that failed in `command`.
RPC4-errors-03 An unknown model is refused with `Model not found: provider/id`.
RPC4-errors-04 A line that is not JSON is answered with `command` `parse`.
RPC4-errors-05 Its `error` begins with `Failed to parse command: ` and contains the reason.
""",
    ),
    Section(
        document="004",
        place="例:基本クライアント and 例:対話型クライアント, lines 270-289",
        text="""
RPC4-examples-01 A host with text pipes that sends a prompt without `id` and prints each
    `text_delta` until `agent_end` shows the whole answer.
RPC4-examples-02 A host that cuts stdout at LF only, drops a CR and takes a last line without LF
    reads every record.
RPC4-examples-03 A host that sends abort without `id` in the midst of an answer ends it.
""",
    ),
)

EXTENSIONS = (
    Section(
        document="004",
        place="prompt, lines 25 and 28",
        area="extensions",
        text="""
RPC4-prompt-20 A prompt that is an extension's command runs it at once, also during a run.
RPC4-prompt-21 An extension's command talks to the model on its own, by sending messages.
RPC4-prompt-22 `success` is true for a prompt that an extension's command has handled.
""",
    ),
    Section(
        document="004",
        place="steer and follow_up, lines 30 and 36",
        area="extensions",
        text="""
RPC4-steer-09 steer refuses an extension's command.
RPC4-follow-up-09 follow_up refuses an extension's command.
""",
    ),
)
