// The process in which extensions written for pi run: Ludolf starts it with three pipes.
import { Bridge } from "./bridge.mjs";
import { Wire } from "./wire.mjs";

const [out, input, sync] = process.argv.slice(2, 5).map(Number);
const wire = new Wire(out, input, sync);
const exit = process.reallyExit.bind(process);
const say = (where, error) => {
  try {
    wire.send({ t: "error", where, error: String(error?.message ?? error) });
  } catch {
    exit(1);
  }
};

process.title = "pi";
process.argv = [process.argv[0], process.env.LUDOLF_PI_SCRIPT ?? process.argv[1]];
process.exit = (code) => {
  throw new Error(`process.exit(${code ?? ""}) was called; an extension cannot end the agent`);
};
process.on("uncaughtException", (error) => say("uncaught exception", error));
process.on("unhandledRejection", (error) => say("unhandled rejection", error));

const bridge = new Bridge(wire);
wire.listen((frame) => bridge.take(frame));
const usage = process.cpuUsage();
wire.send({ t: "ready", rss: process.memoryUsage.rss(), cpu: usage.user + usage.system });
