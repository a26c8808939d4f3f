"""Send one prompt to Ludolf from Python, with the standard library only.

    python minimal.py "what is in this folder?" [options of ludolf]

The answer goes to stdout, tool calls go to stderr. Ctrl-C aborts the run; the session is kept.
Exit code: 0 with an answer, 1 without one, 130 after an abort.
"""

import json
import os
import signal
import subprocess
import sys
from typing import IO, Any

CODES = {"error": 1, "aborted": 130}


def main(message: str, *options: str) -> int:
    command = ["ludolf", "--mode", "rpc", "--rpc-dialect", "pi-delta", *options]
    pipe = subprocess.PIPE
    # In a new session it does not receive the terminal's Ctrl-C; this program handles it.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as ludolf:
        assert ludolf.stdin is not None and ludolf.stdout is not None
        send(ludolf.stdin, id="1", type="prompt", message=message)
        abort_on_ctrl_c(ludolf.stdin.fileno())
        code = follow(ludolf.stdout, ludolf.stdin)
        ludolf.stdin.close()  # orderly shutdown: close stdin, read stdout to its end
        ludolf.stdout.read()
    return code


def send(stdin: IO[bytes], **frame: Any) -> None:
    stdin.write(json.dumps(frame).encode() + b"\n")
    stdin.flush()


def abort_on_ctrl_c(descriptor: int) -> None:
    def abort(*_: object) -> None:
        # Not with `send`, which may be running; a line this short is written atomically.
        os.write(descriptor, b'{"type":"abort"}\n')

    signal.signal(signal.SIGINT, abort)


def follow(stdout: IO[bytes], stdin: IO[bytes]) -> int:
    """Print events until the prompt is done and return the exit code."""
    code = 0
    for line in stdout:  # bytes are split at LF only, as the protocol requires
        frame = json.loads(line)
        match frame["type"]:
            case "response" if not frame["success"]:
                print(frame["error"], file=sys.stderr)
                return 1
            case "response" if frame.get("data", {}).get("disposition") == "handled":
                return 0  # an extension handled the prompt; no run follows
            case "message_update":
                show(frame["assistantMessageEvent"])
            case "message_end" if frame["message"]["role"] == "assistant":
                code = CODES.get(frame["message"]["stopReason"], 0)
                if code:
                    print(frame["message"].get("errorMessage", ""), file=sys.stderr)
            case "tool_execution_start":
                print(f"[{frame['toolName']} {json.dumps(frame['args'])}]", file=sys.stderr)
            case "extension_ui_request":  # dismiss dialogs; notices need no answer
                send(stdin, type="extension_ui_response", id=frame["id"], cancelled=True)
            case "agent_settled":
                return code
    return 1  # the program ended early; the reason is on stderr


def show(piece: dict[str, Any]) -> None:
    if piece["type"] == "text_delta":
        print(piece["delta"], end="", flush=True)
    elif piece["type"] == "text_end":
        print(flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if sys.argv[1:] else __doc__)
