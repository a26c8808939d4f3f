// The connection to the server, and the session that the page shows.

const AGAIN = [200, 500, 1000, 2000, 5000];
const READS_LATER = 3000;
const runName = Math.random().toString(36).slice(2, 10);
const newName = () => `web-${Math.random().toString(36).slice(2, 8)}`;
const session = { id: null, cursor: null, attached: false, attaching: null, running: false, cwd: "", path: null };
const link = { socket: null, ready: false, boot: null, tries: 0, client: kept.get("ludolf-client") ?? newName(), timer: 0 };
const waiting = new Map();
const attending = new Map();
let sent = 0;

function make(name, className = "", text = "") {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

function pushButton(text, act, className = "push") {
  const button = make("button", className, text);
  button.type = "button";
  button.addEventListener("click", act);
  return button;
}

// A message that has to be read stays longer than a confirmation.
function complain(text) {
  toast(text);
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => at("toast").classList.remove("shown"), 3000 + 60 * text.length);
}

// ------------------------------------------------------------ the wire

function connect() {
  if (!token) {
    askForToken();
    return;
  }
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
  link.socket = socket;
  socket.addEventListener("open", () => {
    kept.set("ludolf-client", link.client);
    socket.send(`${JSON.stringify({ id: "hello", type: "hello", client: link.client, name: "browser", token })}\n`);
  });
  socket.addEventListener("message", (event) => {
    for (const line of event.data.split("\n")) if (line) receive(JSON.parse(line));
  });
  socket.addEventListener("close", (event) => lost(socket, event.code));
}

function lost(socket, code) {
  if (socket !== link.socket) return;
  link.ready = false;
  if (code === 4401) {
    token = null;
    kept.set("ludolf-token", "");
    askForToken("The server does not accept this token.");
    return;
  }
  // Another tab that was duplicated from this one has taken its name.
  if (code === 4409) link.client = newName();
  setState("lost");
  if (link.tries > 0 || code !== 4409) showBanner("The connection to the server is lost. Reconnecting …");
  clearTimeout(link.timer);
  link.timer = setTimeout(connect, AGAIN[Math.min(link.tries++, AGAIN.length - 1)]);
}

// A command waits until it is answered, over as many connections as that takes.
function ask(type, fields = {}) {
  const frame = { id: `${runName}-${++sent}`, type, ...fields };
  return new Promise((resolve, reject) => {
    waiting.set(frame.id, { frame, resolve, reject });
    if (link.ready) post(frame);
  });
}

const askHere = (type, fields = {}) => ask(type, { session: session.id, ...fields });

function post(frame) {
  link.socket.send(`${JSON.stringify(frame)}\n`);
}

function receive(frame) {
  if (frame.type === "response") {
    if (frame.id === "hello") welcome(frame);
    else answered(frame);
    return;
  }
  if (frame.type === "server_closing") showBanner("The server is closing.");
  if (frame.type === "session_moved" && frame.from === session.id) moveTo(frame.to);
  if (frame.session !== session.id) return;
  if (frame.seq !== undefined && session.cursor) {
    session.cursor = `${session.cursor.slice(0, session.cursor.lastIndexOf("-"))}-${frame.seq}`;
  }
  EVENTS[frame.type]?.(frame);
}

function answered(frame) {
  const asked = waiting.get(frame.id);
  if (!asked) return;
  waiting.delete(frame.id);
  if (frame.success) asked.resolve(frame.data ?? {});
  else asked.reject(new Error(frame.error));
}

async function welcome(frame) {
  if (!frame.success) return;
  const restarted = link.boot !== null && link.boot !== frame.data.boot;
  Object.assign(link, { boot: frame.data.boot, ready: true, tries: 0 });
  at("enter").hidden = true;
  at("dock").hidden = at("live").hidden = false;
  at("welcome").hidden = session.id !== null;
  showBanner("");
  setState("live");
  // The replies of a server that was restarted are gone: only what changes nothing is sent again.
  for (const [id, asked] of [...waiting]) {
    if (!restarted || /^(get_|list|clients|find_|attach)/.test(asked.frame.type)) continue;
    waiting.delete(id);
    asked.reject(new Error("The server was restarted before it answered."));
  }
  const late = [...waiting.values()].map((asked) => asked.frame);
  if (session.attached) {
    session.attached = false;
    attach().catch(() => {});
  }
  late.forEach(post);
  refreshSessions(true);
  catchUp();
}

function showBanner(text, label = "", act = null) {
  const banner = at("banner");
  banner.hidden = !text;
  banner.firstElementChild.textContent = text;
  at("again").hidden = !act;
  at("again").textContent = label;
  at("again").onclick = act;
}

function askForToken(why = "") {
  setState("wait");
  showBanner("");
  at("dock").hidden = at("live").hidden = true;
  at("enter").hidden = false;
  at("welcome").hidden = true;
  if (why) at("enter-why").textContent = why;
  at("token").focus();
}

at("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  at("token").value = "";
  kept.set("ludolf-token", token);
  link.boot = null;
  connect();
});

// ------------------------------------------------------------ the session

function choose(id, { remember = true } = {}) {
  if (session.attached && session.id) askHere("detach").catch(() => {});
  Object.assign(session, { id, cursor: null, attached: false, attaching: null, running: false, path: null });
  if (remember) history.pushState(null, "", id ? `#session-${encodeURIComponent(id)}` : location.pathname);
  document.body.classList.remove("drawer");
  clearStory();
  clearUnderway();
  clearDialogs();
  attending.clear();
  showQueue([], []);
  showFacts(null);
  restoreDraft();
  at("conversation").setAttribute("aria-busy", "true");
  at("welcome").hidden = id !== null;
  if (id) catchUp();
  markChosen();
  if (id && isLoaded(id)) attach().catch(() => {});
}

function moveTo(id) {
  session.id = id;
  session.cursor = null;
  history.replaceState(null, "", `#session-${encodeURIComponent(id)}`);
  startOver();
  refreshSessions(true);
}

// Attaching loads the session, so it waits until the composer is used.
function attach() {
  if (session.attached) return Promise.resolve();
  const id = session.id;
  const fields = { session: id, ...(session.cursor ? { cursor: session.cursor } : {}), last: 0 };
  session.attaching ??= ask("attach", fields)
    .then((found) => {
      if (session.id === id) joined(found);
    })
    .catch((problem) => {
      complain(problem.message);
      throw problem;
    })
    .finally(() => {
      if (session.id === id) session.attaching = null;
    });
  return session.attaching;
}

// Resolves to true if there is a new session.
const start = (cwd) => attempt(async () => {
  const found = await ask("open", cwd ? { cwd } : {});
  choose(found.session);
  joined(found);
  refreshSessions(true);
  at("message").focus();
  return true;
});

function joined(found) {
  session.attached = true;
  session.cursor = found.cursor;
  if (found.mode === "snapshot") takeSnapshot(found);
  showFacts(found.state ?? null);
  refreshFacts();
  askHere("clients").then(({ clients }) => {
    attending.clear();
    for (const each of clients) attending.set(each.client, each.name);
    showOthers();
  }).catch(() => {});
  loadCommands();
  catchUp();
}

function takeSnapshot(found) {
  clearUnderway();
  clearDialogs();
  const now = found.underway ?? {};
  setRunning(Boolean(found.state?.isStreaming));
  if (now.message) resumeAnswer(now.message);
  for (const tool of now.tools ?? []) {
    beginTool(tool);
    if (tool.partialResult) updateTool(tool);
  }
  showQueue(now.steering ?? [], now.followUp ?? []);
  for (const request of now.dialogs ?? []) showRequest(request);
  for (const request of now.widgets ?? []) showRequest(request);
  for (const [key, text] of Object.entries(now.statuses ?? {})) showRequest({ method: "setStatus", statusKey: key, statusText: text });
  if (found.interrupted) {
    showBanner("The last run was interrupted.", "Continue", () => {
      showBanner("");
      attempt(() => askHere("prompt", { message: "Continue." }));
    });
  }
  catchUp();
}

// ------------------------------------------------------------ entries

let asking = false;
let askAgain = false;

function fetchDocument(place) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("GET", place);
    request.setRequestHeader("Authorization", `Bearer ${token}`);
    request.responseType = "document";
    request.addEventListener("loadend", () => resolve(request));
    request.send();
  });
}

// The server's document is parsed by the browser with all script off; no text becomes markup here.
async function catchUp() {
  if (!session.id || !token) return;
  askAgain = asking;
  if (asking) return;
  asking = true;
  const id = session.id;
  const over = finishedParts();
  const mark = `${known.reading}-${known.count}`;
  const place = known.reading ? `news?after=${encodeURIComponent(mark)}` : "page";
  const answer = await fetchDocument(`/sessions/${encodeURIComponent(id)}/${place}`);
  asking = false;
  if (session.id !== id || mark !== `${known.reading}-${known.count}`) {
    catchUp();
    return;
  }
  if (answer.status === 409) startOver();
  else if (answer.status === 200 && answer.responseXML) {
    take(answer.responseXML);
    for (const part of over) part.remove();
    at("about").hidden = size === 0;
    at("tail").hidden = false;
    if (conversation.getAttribute("aria-busy") === "true") firstLook();
  } else if (answer.status === 0) setTimeout(catchUp, 1000);
  else if (answer.status === 404) conversation.removeAttribute("aria-busy");
  showTail();
  if (askAgain) catchUp();
}

function firstLook() {
  if (location.hash.includes("entry-")) followHash();
  else {
    pinned = true;
    toEnd();
  }
  // What was there before is not read out.
  requestAnimationFrame(() => conversation.removeAttribute("aria-busy"));
}

function startOver() {
  clearStory();
  catchUp();
}

function clearStory() {
  for (const name of ["ids", "parents", "texts", "times", "chart"]) data[name].length = 0;
  Object.assign(data, { kinds: "", labels: {}, leaf: -1 });
  Object.assign(known, { reading: "", count: 0 });
  size = 0;
  for (const all of [byId, below, articles, lowered]) all.clear();
  for (const all of [roots, shown]) all.length = 0;
  conversation.replaceChildren();
  at("summary").replaceChildren();
  at("roots").replaceChildren();
  path = [];
  onPath = new Set();
  current = null;
  asker = null;
  fresh = 0;
  at("about").hidden = true;
  at("tail").hidden = true;
  document.title = at("heading").textContent = "Ludolf";
  for (const notify of whenBranchChanges) notify();
  showState();
}

// A session that is not loaded may be written by another program.
setInterval(() => {
  if (session.id && !session.attached && link.ready && !document.hidden) catchUp();
}, READS_LATER);

hashOf = ((inner) => (index) => `#session-${encodeURIComponent(session.id)}&${inner(index).slice(1)}`)(hashOf);

function sessionOfHash() {
  const found = /(?:^#|&)session-([^&]+)/.exec(location.hash);
  return found ? decode(found[1]) : null;
}

addEventListener("popstate", () => {
  const given = takeToken();
  if (given) {
    token = given;
    if (!link.ready) connect();
    return;
  }
  if (sessionOfHash() !== session.id) choose(sessionOfHash(), { remember: false });
});
