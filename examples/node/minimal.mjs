// Ask Ludolf one thing from Node, without packages.
//
//     node minimal.mjs "what is in this folder?" [options of ludolf]
//
// The answer is on stdout, tool calls are on stderr. Ctrl-C aborts the run and keeps what was said.
// Ends with 0 if there was an answer, 1 if not, 130 after an abort.

import { spawn } from "node:child_process";
import { once } from "node:events";

const [message, ...options] = process.argv.slice(2);
const ludolf = spawn("ludolf", ["--mode", "rpc", "--rpc-dialect", "pi-delta", ...options], {
  stdio: ["pipe", "pipe", "inherit"],
  detached: true, // it does not get the terminal's Ctrl-C: we decide what that means
});
ludolf.on("error", (error) => fail(`Cannot start ludolf: ${error.message}`));
ludolf.stdin.on("error", () => {}); // it has ended: the end of its stdout tells us so

const send = (frame) => ludolf.stdin.write(JSON.stringify(frame) + "\n");

const fail = (text) => {
  console.error(text);
  process.exitCode = 1;
};

// readline would split at U+2028 too, inside of texts: frames end with LF only.
async function* frames(stream) {
  let rest = "";
  for await (const text of stream.setEncoding("utf8")) {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

// While nobody takes our output we read no more, and Ludolf waits: nothing piles up.
const show = async (text) => {
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
};

// Show what happens until the prompt is over; the exit code.
async function follow() {
  let code = 0;
  for await (const frame of frames(ludolf.stdout)) {
    switch (frame.type) {
      case "response":
        if (!frame.success) return fail(frame.error), 1;
        // An extension has dealt with it, and no run follows.
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
      case "extension_ui_request": // nobody here can answer; notices need none
        send({ type: "extension_ui_response", id: frame.id, cancelled: true });
        break;
      case "agent_settled":
        return code;
    }
  }
  return 1; // it ended before the prompt did; its stderr said why
}

send({ id: "1", type: "prompt", message });
process.on("SIGINT", () => send({ type: "abort" }));
process.exitCode = await follow();
ludolf.stdin.end(); // the polite end: close its stdin, read until its stdout ends
