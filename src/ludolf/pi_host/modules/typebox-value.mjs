// `typebox/value`: all of it comes from the real library.
import { namespace } from "./namespace.mjs";

export default (host) => namespace("typebox/value", {}, host);
