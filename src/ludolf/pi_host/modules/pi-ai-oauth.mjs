// `pi-ai/oauth`: all of it comes from the real library.
import { namespace } from "./namespace.mjs";

export default (host) => namespace("pi-ai/oauth", {}, host);
