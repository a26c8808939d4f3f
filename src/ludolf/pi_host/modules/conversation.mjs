// Messages of a session as a model sees them.
export const COMPACTION_SUMMARY_PREFIX =
  "The conversation history before this point was compacted into the following summary:\n\n<summary>\n";
export const COMPACTION_SUMMARY_SUFFIX = "\n</summary>";
export const BRANCH_SUMMARY_PREFIX =
  "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n";
export const BRANCH_SUMMARY_SUFFIX = "</summary>";
const SENT = new Set(["system", "user", "assistant", "toolResult"]);

export function bashExecutionToText({ command, output, exitCode, cancelled, ...rest }) {
  const parts = [`Ran \`${command}\`\n` + (output ? `\`\`\`\n${output}\n\`\`\`` : "(no output)")];
  if (cancelled) parts.push("(command cancelled)");
  else if (exitCode) parts.push(`Command exited with code ${exitCode}`);
  if (rest.truncated && rest.fullOutputPath) {
    parts.push(`[Output truncated. Full output: ${rest.fullOutputPath}]`);
  }
  return parts.join("\n\n");
}

// Turns summaries, commands of the user and custom messages into user messages.
export function convertToLlm(messages) {
  return messages.flatMap((message) => {
    if (SENT.has(message.role)) return [message];
    const content = contentOf(message);
    return content === undefined ? [] : [{ role: "user", content, timestamp: message.timestamp }];
  });
}

function contentOf(message) {
  const text = (value) => [{ type: "text", text: value }];
  switch (message.role) {
    case "bashExecution":
      return message.excludeFromContext ? undefined : text(bashExecutionToText(message));
    case "custom":
      return typeof message.content === "string" ? text(message.content) : message.content;
    case "branchSummary":
      return text(BRANCH_SUMMARY_PREFIX + message.summary + BRANCH_SUMMARY_SUFFIX);
    case "compactionSummary":
      return text(COMPACTION_SUMMARY_PREFIX + message.summary + COMPACTION_SUMMARY_SUFFIX);
    default:
      return undefined;
  }
}
