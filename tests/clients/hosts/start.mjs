// Starts Ludolf for hosts that insist on `node <file>`: the same words, pipes, signals and end.
import { spawn } from "node:child_process";

const child = spawn(process.env.HOST_COMMAND, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(code ?? 128 + (signal === "SIGTERM" ? 15 : 9)));
