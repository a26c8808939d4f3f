// The list of sessions, the tree's actions, and start-up.

const LIST_AGAIN = 5000;
const ALL_AGAIN = 300000;
const STATE_NAMES = { running: "running", waiting: "waits for an answer", idle: "loaded", stored: "" };
let listedSessions = [];
let listedAll = 0;

const isLoaded = (id) => listedSessions.some((one) => one.session === id && one.state !== "stored");

async function refreshSessions(everything) {
  if (!link.ready) return;
  const all = everything || Date.now() - listedAll > ALL_AGAIN;
  try {
    const { sessions } = await ask("list", all ? { all: true } : {});
    if (all) listedAll = Date.now();
    const loaded = new Map(sessions.map((one) => [one.session, one]));
    const rest = all ? [] : listedSessions.filter((one) => !loaded.has(one.session)).map((one) => ({ ...one, state: "stored", dialogs: 0 }));
    listedSessions = [...sessions, ...rest];
    drawSessions();
    if (session.id && !session.attached && isLoaded(session.id)) attach().catch(() => {});
  } catch (problem) {
    if (link.ready) complain(problem.message);
  }
}

function drawSessions() {
  const wanted = at("seek").value.trim().toLowerCase();
  const folders = new Map();
  const newest = [...listedSessions].sort((one, other) => (one.updated < other.updated ? 1 : -1));
  for (const one of newest) {
    if (wanted && !`${one.title ?? ""} ${one.cwd} ${one.session}`.toLowerCase().includes(wanted)) continue;
    if (!folders.has(one.cwd)) folders.set(one.cwd, []);
    folders.get(one.cwd).push(one);
  }
  const held = document.activeElement?.dataset?.session;
  at("sessions").replaceChildren(...[...folders].map(([cwd, found]) => folderOf(cwd, found)));
  if (!folders.size) at("sessions").append(make("p", "empty", wanted ? "No session matches." : "There is no session yet."));
  const known = [...new Set(listedSessions.map((one) => one.cwd))];
  at("folders").replaceChildren(...known.map((cwd) => Object.assign(make("option"), { value: cwd })));
  if (held) at("sessions").querySelector(`[data-session="${CSS.escape(held)}"]`)?.focus();
  markChosen();
}

function folderOf(cwd, found) {
  const box = make("section", "folder");
  const head = make("h2");
  const name = make("span", "", shortFolder(cwd));
  name.title = cwd;
  const add = pushButton("+", () => start(cwd), "drop");
  add.setAttribute("aria-label", `New session in ${cwd}`);
  add.title = `New session in ${cwd}`;
  head.append(name, add);
  const list = make("ul");
  list.append(...found.map(sessionRow));
  box.append(head, list);
  return box;
}

const shortFolder = (cwd) => cwd.replace(/^\/.*\/([^/]+\/[^/]+)$/, "…/$1");

function sessionRow(one) {
  const item = make("li");
  const button = pushButton("", () => choose(one.session), "one");
  button.dataset.session = one.session;
  const dot = make("i", `dot ${one.state}`);
  dot.setAttribute("aria-hidden", "true");
  const when = make("span", "when", `${ago(Date.now() - Date.parse(one.updated))}`);
  button.append(dot, make("span", "called", one.title || `Session ${one.session.slice(0, 8)}`), when);
  if (STATE_NAMES[one.state]) button.append(make("span", "unseen", STATE_NAMES[one.state]));
  item.append(button);
  return item;
}

function markChosen() {
  const mine = listedSessions.find((one) => one.session === session.id);
  session.cwd = mine?.cwd ?? session.cwd;
  for (const row of at("sessions").querySelectorAll(".one")) {
    if (row.dataset.session === session.id) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
  showTitle();
}

// Waiting questions of all sessions are counted in the title of the tab.
function showTitle() {
  const waits = listedSessions.reduce((sum, one) => sum + (one.session === session.id ? 0 : one.dialogs), questions.size);
  const name = at("heading").textContent;
  document.title = `${waits ? `(${waits}) ` : ""}${name === "Ludolf" ? name : `${name} – Ludolf`}`;
}
new MutationObserver(showTitle).observe(at("heading"), { childList: true, characterData: true, subtree: true });
new MutationObserver(() => {
  showTitle();
  showTail();
}).observe(at("dialogs"), { childList: true });

at("seek").addEventListener("input", drawSessions);
at("seek").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "Enter") {
    event.preventDefault();
    at("sessions").querySelector(".one")?.focus();
  } else if (event.key === "Escape") at("seek").blur();
});
at("sessions").addEventListener("keydown", (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const all = [...at("sessions").querySelectorAll(".one")];
  all[(all.indexOf(document.activeElement) + by + all.length) % all.length]?.focus();
});
at("new").addEventListener("click", () => {
  at("new-form").hidden = !at("new-form").hidden;
  at("folder").value = session.cwd;
  if (!at("new-form").hidden) at("folder").select();
});
at("new-cancel").addEventListener("click", () => (at("new-form").hidden = true));
at("new-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (await start(at("folder").value.trim())) at("new-form").hidden = true;
});

// ------------------------------------------------------------ tabs

function showPane(name) {
  for (const one of ["sessions", "tree"]) {
    at(`tab-${one}`).setAttribute("aria-selected", String(one === name));
    at(`tab-${one}`).tabIndex = one === name ? 0 : -1;
    at(`pane-${one}`).hidden = one !== name;
  }
  drawRows();
}
for (const name of ["sessions", "tree"]) {
  at(`tab-${name}`).addEventListener("click", () => showPane(name));
  at(`tab-${name}`).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    showPane(name === "tree" ? "sessions" : "tree");
    at(`tab-${name === "tree" ? "sessions" : "tree"}`).focus();
  });
}
KEYS.s = () => {
  if (document.body.classList.contains("wide") || (matchMedia("(max-width: 900px)").matches && !document.body.classList.contains("drawer"))) toggleTree();
  showPane("sessions");
  at("seek").select();
};

// ------------------------------------------------------------ the tree and the name

function onEntry(work) {
  const index = currentIndex();
  if (!session.id || !(index >= 0)) return;
  attempt(() => attach().then(() => work(data.ids[index])));
}

at("move").addEventListener("click", () => onEntry(async (entry) => {
  const label = at("label").value.trim();
  at("label").value = "";
  const found = await askHere("navigate_tree", { targetId: entry, summarize: at("summarise").checked, ...(label ? { label } : {}) });
  if (found.text) setMessage(found.text);
  await catchUp();
  toEnd();
  toast(found.cancelled ? "The move was cancelled" : "The session continues here");
}));
at("fork").addEventListener("click", () => onEntry(async (entry) => {
  const found = await askHere("fork", { entryId: entry });
  if (found.cancelled) toast("The fork was cancelled");
  else if (found.text) setMessage(found.text);
}));
at("rename").addEventListener("click", () => {
  if (!session.id) return;
  at("name").value = listedSessions.find((one) => one.session === session.id)?.name ?? "";
  showDialog("naming");
});
at("naming-cancel").addEventListener("click", () => at("naming").close());
at("naming-form").addEventListener("click", (event) => event.stopPropagation());
at("naming-form").addEventListener("submit", (event) => {
  event.preventDefault();
  at("naming").close();
  attempt(() => attach().then(() => askHere("set_session_name", { name: at("name").value })));
});

// ------------------------------------------------------------ start-up

showPane("sessions");
setInterval(() => {
  if (!document.hidden) refreshSessions(false);
}, LIST_AGAIN);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) refreshSessions(false);
});
choose(sessionOfHash(), { remember: false });
connect();
