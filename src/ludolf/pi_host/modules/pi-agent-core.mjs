// `pi-agent-core`: limits and messages; the agent itself comes from a real pi.
import * as conversation from "./conversation.mjs";
import { namespace } from "./namespace.mjs";
import * as truncation from "./truncation.mjs";

export default (host) => namespace("pi-agent-core", { ...truncation, ...conversation }, host);
