// Send one prompt to Ludolf from Node, without packages.
//
//     node minimal.mjs "what is in this folder?" [options of ludolf]
//
// The answer goes to stdout, tool calls go to stderr. Ctrl-C aborts the run; the session is kept.
// Exit code: 0 with an answer, 1 without one, 130 after an abort.

import { spawn } from "node:child_process";
import { once } from "node:events";

const [message, ...options] = process.argv.slice(2);
const ludolf = spawn("ludolf", ["--mode", "rpc", "--rpc-dialect", "pi-delta", ...options], {
  stdio: ["pipe", "pipe", "inherit"],
  detached: true, // it does not receive the terminal's Ctrl-C; this program handles it
});
ludolf.on("error", (error) => fail(`Cannot start ludolf: ${error.message}`));
ludolf.stdin.on("error", () => {}); // the program has ended; `follow` notices that at the end of stdout

const send = (frame) => ludolf.stdin.write(JSON.stringify(frame) + "\n");

const fail = (text) => {
  console.error(text);
  process.exitCode = 1;
};

// Frames end with LF only; readline would also split at U+2028 inside texts.
async function* frames(stream) {
  let rest = "";
  for await (const text of stream.setEncoding("utf8")) {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

// Wait while stdout is full: then Ludolf waits too, and no output piles up in memory.
const show = async (text) => {
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
};

// Print events until the prompt is done and return the exit code.
async function follow() {
  let code = 0;
  for await (const frame of frames(ludolf.stdout)) {
    switch (frame.type) {
      case "response":
        if (!frame.success) return fail(frame.error), 1;
        // An extension handled the prompt; no run follows.
        if (frame.data?.disposition === "handled") return 0;
        break;
      case "message_update":
        if (frame.assistantMessageEvent.type === "text_delta")
          await show(frame.assistantMessageEvent.delta);
        else if (frame.assistantMessageEvent.type === "text_end") await show("\n");
        break;
      case "message_end":
        if (frame.message.role !== "assistant") break;
        code = { error: 1, aborted: 130 }[frame.message.stopReason] ?? 0;
        if (code) console.error(frame.message.errorMessage ?? "");
        break;
      case "tool_execution_start":
        console.error(`[${frame.toolName} ${JSON.stringify(frame.args)}]`);
        break;
      case "extension_ui_request": // dismiss dialogs; notices need no answer
        send({ type: "extension_ui_response", id: frame.id, cancelled: true });
        break;
      case "agent_settled":
        return code;
    }
  }
  return 1; // the program ended early; the reason is on stderr
}

send({ id: "1", type: "prompt", message });
process.on("SIGINT", () => send({ type: "abort" }));
process.exitCode = await follow();
ludolf.stdin.end(); // orderly shutdown: close stdin, read stdout to its end
