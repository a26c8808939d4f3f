// `pi-ai`: schemas, event streams, and models through Ludolf's providers.
import {
  AssistantMessageEventStream,
  createAssistantMessageEventStream,
  Draft,
  EventStream,
} from "./event-stream.mjs";
import { namespace } from "./namespace.mjs";
import makeTypebox, { Type } from "./typebox.mjs";

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
const MILLION = 1_000_000;

export function StringEnum(values, options = {}) {
  const { description, default: chosen } = options;
  return Type.Unsafe({
    type: "string",
    enum: values,
    ...(description && { description }),
    ...(chosen && { default: chosen }),
  });
}

export function calculateCost(model, usage) {
  const { input, output, cacheRead, cacheWrite, cacheWrite1h = 0 } = usage;
  const asked = input + cacheRead + cacheWrite;
  const tiers = (model.cost.tiers ?? []).filter((tier) => asked > tier.inputTokensAbove);
  const rates = tiers.reduce(
    (best, tier) => (tier.inputTokensAbove > (best.inputTokensAbove ?? -1) ? tier : best),
    model.cost,
  );
  const cost = usage.cost;
  cost.input = (rates.input / MILLION) * input;
  cost.output = (rates.output / MILLION) * output;
  cost.cacheRead = (rates.cacheRead / MILLION) * cacheRead;
  // A cache entry that lasts an hour costs twice the input.
  const short = rates.cacheWrite * (cacheWrite - cacheWrite1h);
  cost.cacheWrite = (short + rates.input * 2 * cacheWrite1h) / MILLION;
  cost.total = cost.input + cost.output + cost.cacheRead + cost.cacheWrite;
  return cost;
}

export function getSupportedThinkingLevels(model) {
  if (!model.reasoning) return ["off"];
  const map = model.thinkingLevelMap ?? {};
  return LEVELS.filter((level) => {
    if (map[level] === null) return false;
    return map[level] !== undefined || !["xhigh", "max"].includes(level);
  });
}

// The level itself if the model has it, else the next higher one, else the next lower one.
export function clampThinkingLevel(model, level) {
  const known = getSupportedThinkingLevels(model);
  if (known.includes(level)) return level;
  const at = LEVELS.indexOf(level);
  if (at < 0) return known[0] ?? "off";
  const higher = LEVELS.slice(at).find((one) => known.includes(one));
  return higher ?? LEVELS.slice(0, at).findLast((one) => known.includes(one)) ?? known[0] ?? "off";
}

export const modelsAreEqual = (a, b) =>
  Boolean(a && b) && a.id === b.id && a.provider === b.provider;
export const hasApi = (model, api) => model.api === api;

// Functions cannot travel to Ludolf; a signal is passed apart.
function sendable(options = {}) {
  const { signal, ...rest } = options;
  const plain = Object.entries(rest).filter(([, value]) => typeof value !== "function");
  return [Object.fromEntries(plain), signal];
}

function makeStreams(host) {
  const stream = (model, context, given) => {
    const events = createAssistantMessageEventStream();
    const [options, signal] = sendable(given);
    const draft = new Draft(model);
    events.push({ type: "start", partial: draft.message });
    const take = (event) => events.push(draft.take(event));
    host.call("stream", { model, context, options }, signal, take).then(
      (message) => events.push(last(message)),
      (error) => events.push(last(failed(draft.message, error, signal))),
    );
    return events;
  };
  const complete = async (model, context, given) => {
    const [options, signal] = sendable(given);
    try {
      return await host.call("complete", { model, context, options }, signal);
    } catch (error) {
      return failed(new Draft(model).message, error, signal);
    }
  };
  return { stream, streamSimple: stream, complete, completeSimple: complete };
}

function last(message) {
  const { stopReason } = message;
  if (stopReason === "error" || stopReason === "aborted") {
    return { type: "error", reason: stopReason, error: message };
  }
  return { type: "done", reason: stopReason, message };
}

function failed(message, error, signal) {
  const stopReason = signal?.aborted ? "aborted" : "error";
  return { ...message, stopReason, errorMessage: String(error?.message ?? error) };
}

function makeModels(host) {
  const all = () => host.sync("models", {});
  return {
    getModel: (provider, id) => host.sync("find_model", { provider, id }) ?? undefined,
    getModels: (provider) => all().filter((model) => model.provider === provider),
    getProviders: () => [...new Set(all().map((model) => model.provider))],
  };
}

export function ownExports(host) {
  return {
    Type: makeTypebox(host).Type,
    StringEnum,
    EventStream,
    AssistantMessageEventStream,
    createAssistantMessageEventStream,
    calculateCost,
    getSupportedThinkingLevels,
    clampThinkingLevel,
    modelsAreEqual,
    hasApi,
    ...makeStreams(host),
    ...makeModels(host),
  };
}

// pi keeps older names in `pi-ai/compat`.
export default (host) =>
  namespace("pi-ai", ownExports(host), host, { from: ["pi-ai", "pi-ai/compat"] });
