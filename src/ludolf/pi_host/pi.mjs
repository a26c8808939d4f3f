#!/usr/bin/env node
// `process.argv[1]` of extensions: starts Ludolf with the arguments given.
import { spawn } from "node:child_process";

const [program, ...words] = JSON.parse(process.env.LUDOLF_PI_COMMAND ?? '["ludolf"]');
const child = spawn(program, [...words, ...process.argv.slice(2)], { stdio: "inherit" });
for (const name of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(name, () => child.kill(name));
child.on("error", (error) => {
  console.error(`Cannot start ${program}: ${error.message}`);
  process.exitCode = 1;
});
child.on("exit", (code, signal) => {
  process.exitCode = code ?? (signal ? 1 : 0);
});
