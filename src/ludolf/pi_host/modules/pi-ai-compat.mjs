// `pi-ai/compat`: the same names as `pi-ai`, and more from the real one.
import { namespace } from "./namespace.mjs";
import { ownExports } from "./pi-ai.mjs";

export default (host) => namespace("pi-ai/compat", ownExports(host), host);
