// Passes the events of a stream of an extension to Ludolf, without the message so far.

// Resolves when the stream has ended; `send` receives each event.
export async function relay(source, send) {
  const stream = await source;
  const seen = new Set();
  for await (const event of stream) {
    const { type, contentIndex } = event;
    if (contentIndex !== undefined) seen.add(contentIndex);
    if (type === "done") {
      for (const one of unseen(event.message, seen)) send(one);
      send({ type, reason: event.reason, message: { usage: event.message?.usage } });
    } else if (type === "error") {
      const { errorMessage } = event.error ?? {};
      send({ type, reason: event.reason, error: errorMessage ?? String(event.error ?? "") });
    } else if (type !== "start") {
      send(slim(event));
    }
  }
}

function slim({ type, contentIndex, delta, content, toolCall, partial }) {
  if (type === "toolcall_start") {
    const { id, name } = partial?.content?.[contentIndex] ?? {};
    return { type, contentIndex, id, toolName: name };
  }
  if (type.endsWith("_delta")) return { type, contentIndex, delta };
  return { type, contentIndex, content, toolCall };
}

// Blocks that only the finished message has.
function* unseen(message, seen) {
  for (const [contentIndex, block] of (message?.content ?? []).entries()) {
    if (seen.has(contentIndex)) continue;
    if (block.type === "toolCall") {
      yield { type: "toolcall_end", contentIndex, toolCall: block };
    } else {
      const type = block.type === "thinking" ? "thinking" : "text";
      yield { type: `${type}_delta`, contentIndex, delta: block.thinking ?? block.text };
      yield { type: `${type}_end`, contentIndex };
    }
  }
}
