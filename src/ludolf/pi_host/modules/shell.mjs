// The bash tool with operations of an extension: they run here, the output is cut as Ludolf does.
import { spawn } from "node:child_process";
import { createWriteStream, existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEFAULT_MAX_BYTES, formatSize, truncateTail } from "./truncation.mjs";

const KEPT = 4 * DEFAULT_MAX_BYTES;

export function getShellConfig(customShellPath) {
  const shell = customShellPath ?? ["/bin/bash", "/usr/bin/bash"].find(existsSync) ?? "sh";
  return { shell, args: ["-c"] };
}

export function createLocalBashOperations({ shellPath } = {}) {
  const { shell, args } = getShellConfig(shellPath);
  return {
    exec: (command, cwd, { onData, signal, timeout, env }) =>
      new Promise((resolve, reject) => {
        const stdio = ["ignore", "pipe", "pipe"];
        const child = spawn(shell, [...args, command], { cwd, env, stdio, detached: true });
        const kill = () => {
          try {
            process.kill(-child.pid, "SIGKILL");
          } catch {
            child.kill("SIGKILL");
          }
        };
        let late = false;
        const timer = timeout > 0 && setTimeout(() => ((late = true), kill()), timeout * 1000);
        signal?.addEventListener("abort", kill, { once: true });
        if (signal?.aborted) kill();
        child.stdout.on("data", onData);
        child.stderr.on("data", onData);
        child.on("error", reject);
        child.on("close", (exitCode) => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", kill);
          if (signal?.aborted) reject(new Error("aborted"));
          else if (late) reject(new Error(`timeout:${timeout}`));
          else resolve({ exitCode });
        });
      }),
  };
}

// The end of an output in memory; all of it in a file once it is too long.
class Output {
  #tail = Buffer.alloc(0);
  #lines = 0;
  #bytes = 0;
  #file = null;
  path = undefined;

  append(data) {
    const chunk = Buffer.from(data);
    this.#bytes += chunk.length;
    for (const byte of chunk) this.#lines += byte === 10;
    const whole = Buffer.concat([this.#tail, chunk]);
    if (this.#bytes > DEFAULT_MAX_BYTES && this.#file === null) {
      this.path = join(mkdtempSync(join(tmpdir(), "ludolf-bash-")), "output.log");
      this.#file = createWriteStream(this.path, { mode: 0o600 });
      this.#file.write(whole);
    } else {
      this.#file?.write(chunk);
    }
    this.#tail = whole.subarray(Math.max(0, whole.length - KEPT));
  }

  async end() {
    const ended = this.#tail.length > 0 && this.#tail.at(-1) !== 10;
    const shown = truncateTail(this.#tail.toString("utf8"));
    if (this.#bytes > this.#tail.length) {
      shown.truncated = true;
      shown.totalLines = this.#lines + (ended ? 1 : 0);
      shown.totalBytes = this.#bytes;
    }
    if (shown.truncated && this.#file === null) this.path = undefined;
    if (this.#file !== null) await new Promise((resolve) => this.#file.end(resolve));
    return shown;
  }
}

export async function runShell({ command, cwd, env, timeout, operations }, signal, onUpdate) {
  const output = new Output();
  onUpdate?.({ content: [], details: undefined });
  let exitCode;
  try {
    const options = { onData: (data) => output.append(data), signal, timeout, env };
    ({ exitCode } = await operations.exec(command, cwd, options));
  } catch (error) {
    const { text } = result(await output.end(), output.path, "");
    throw new Error(joined(text, reason(error)));
  }
  const { text, details } = result(await output.end(), output.path, "(no output)");
  if (exitCode === null) throw new Error(joined(text, "Command terminated without an exit code"));
  if (exitCode !== 0) throw new Error(joined(text, `Command exited with code ${exitCode}`));
  return { content: [{ type: "text", text }], details };
}

function reason(error) {
  const message = String(error?.message ?? error);
  if (message === "aborted") return "Command aborted";
  const seconds = /^timeout:(.*)$/.exec(message)?.[1];
  return seconds === undefined ? message : `Command timed out after ${seconds} seconds`;
}

const joined = (text, status) => (text ? `${text}\n\n${status}` : status);

function result(shown, path, empty) {
  if (!shown.truncated) return { text: shown.content || empty };
  const last = shown.totalLines;
  const first = last - shown.outputLines + 1;
  let range = `Showing lines ${first}-${last} of ${last}`;
  if (shown.lastLinePartial) range = `Showing last ${formatSize(shown.outputBytes)} of line ${last}`;
  else if (shown.truncatedBy === "bytes") range += ` (${formatSize(DEFAULT_MAX_BYTES)} limit)`;
  const where = path ? ` Full output: ${path}` : "";
  const details = { truncation: shown, fullOutputPath: path };
  return { text: `${shown.content}\n\n[${range}.${where}]`, details };
}
