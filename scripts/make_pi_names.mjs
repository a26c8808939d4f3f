// Prints the names that our modules for pi's packages export, for modules/names.json.
// Usage: node scripts/make_pi_names.mjs > src/ludolf/pi_host/modules/names.json
const MODULES = ["typebox", "typebox/value", "typebox/compile", "pi-ai", "pi-ai/compat", "pi-ai/oauth"];
MODULES.push("pi-tui", "pi-coding-agent", "pi-agent-core");
const host = { sync: () => [], call: async () => ({}), tell: () => {} };
const names = {};
for (const name of MODULES) {
  const file = new URL(`../src/ludolf/pi_host/modules/${name.replace("/", "-")}.mjs`, import.meta.url);
  names[name] = Object.keys((await import(file)).default(host)).sort();
}
console.log(JSON.stringify(names, null, 1));
