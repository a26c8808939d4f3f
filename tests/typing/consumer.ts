// What users of the published types write; it is compiled, never run.
import type { Answers, AssistantMessage, Command, Frames, State } from "./ludolf";

type Frame = Frames["pi-delta"];

export function text(frame: Frame): string {
  switch (frame.type) {
    case "message_update":
      return frame.assistantMessageEvent.type === "text_delta" ? frame.assistantMessageEvent.delta : "";
    case "message_end":
      return frame.message.role === "assistant" ? last(frame.message) : "";
    case "response":
      if (!frame.success) return frame.error;
      return frame.command === "get_state" ? frame.data.sessionId : "";
    case "extension_ui_request":
      return frame.method === "select" ? frame.options.join() : "";
    default:
      return "";
  }
}

function last(message: AssistantMessage): string {
  const block = message.content[message.content.length - 1];
  return block !== undefined && block.type === "text" ? block.text : "";
}

export const commands: Command[] = [
  { type: "get_state" },
  { id: 7, type: "prompt", message: "hi", images: [{ type: "image", data: "", mimeType: "image/png" }] },
];

export type Ask = <C extends keyof Answers>(command: C) => Promise<Answers[C]>;
export const state = (ask: Ask): Promise<State> => ask("get_state");

// @ts-expect-error: a prompt has a message
export const wrong: Command = { type: "prompt" };
