// Inserts new entries into the page, and follows its end.

const STATES = { wait: "Connecting", live: "Live", lost: "Reconnecting", ended: "Ended" };
const LONG_AGO = 3600000;
const known = readMark(data.mark);
let fresh = 0;
let asker = null;
let state = "wait";

function readMark(text) {
  const dash = text.lastIndexOf("-");
  return { reading: text.slice(0, dash), count: Number(text.slice(dash + 1)) };
}

// ------------------------------------------------------------ news

function take(page) {
  const news = JSON.parse(page.getElementById("data").textContent);
  if (news.from !== size) {
    startOver();
    return;
  }
  const watched = path.at(-1) === data.leaf || !path.length;
  const follows = watched && isAtEnd();
  grow(news);
  for (const element of [...page.body.children]) {
    if (element.localName === "article") put(document.adoptNode(element));
  }
  Object.assign(known, readMark(news.mark));
  replaceHead(page);
  if (watched && data.leaf !== path.at(-1)) showBranch(data.leaf);
  else for (const notify of whenBranchChanges) notify();
  markForks();
  markRunning();
  fresh = follows ? 0 : fresh + news.kinds.replaceAll(/[qe]/g, "").length;
  if (follows) toEnd();
  showState();
}

function grow(news) {
  const first = size;
  size += news.ids.length;
  data.kinds += news.kinds;
  for (const name of ["ids", "parents", "texts", "times"]) data[name].push(...news[name]);
  Object.assign(data.labels, news.labels);
  for (const [index, label] of Object.entries(news.changed)) {
    if (label) data.labels[index] = label;
    else delete data.labels[index];
  }
  for (let index = first; index < size; index++) {
    const parent = data.parents[index];
    byId.set(data.ids[index], index);
    if (parent < 0) roots.push(index);
    else if (below.has(parent)) below.get(parent).push(index);
    else below.set(parent, [index]);
    shown[index] = false;
    if (data.kinds[index] === "q") continue;
    for (let up = index; up >= 0 && !shown[up]; up = data.parents[up]) shown[up] = true;
  }
  data.leaf = news.leaf;
  data.chart = news.chart;
}

// Insert a new article, or replace an older state of the same entry.
function put(element) {
  const index = Number(element.dataset.i);
  const old = articles.get(index);
  prepare(element);
  if (old) {
    keepOpen(old, element);
    element.classList.toggle("here", old.classList.contains("here"));
    if (old === current) current = element;
    old.replaceWith(element);
  }
  at(`t-${index}`)?.remove();
  lowered.delete(index);
  articles.set(index, element);
}

const foldName = (fold) => `${fold.className} ${fold.firstElementChild?.textContent}`;

function keepOpen(old, element) {
  const were = new Map([...old.querySelectorAll("details")].map((fold) => [foldName(fold), fold.open]));
  for (const fold of element.querySelectorAll("details")) fold.open = were.get(foldName(fold)) ?? fold.open;
}

// Replace the head of the page.
function replaceHead(page) {
  document.title = at("heading").textContent = page.title;
  for (const name of ["summary", "roots"]) {
    const element = document.adoptNode(page.getElementById(name));
    prepare(element);
    keepOpen(at(name), element);
    at(name).replaceWith(element);
  }
  watchChart();
}

// ------------------------------------------------------------ activity

// Calls of the last answer may still be running; those of earlier ones have no result.
function markRunning() {
  const place = path.findLastIndex((index) => !"tfq".includes(data.kinds[index]));
  const last = articles.get(path[place]) ?? null;
  const recent = Date.now() - data.times[size - 1] < LONG_AGO;
  for (const element of new Set([asker, last])) {
    for (const card of element?.querySelectorAll(".call.pending") ?? []) {
      const runs = element === last && recent;
      card.classList.toggle("running", runs);
      card.querySelector(".chip:last-of-type").textContent = runs ? "running" : "no result";
    }
  }
  asker = last;
}

function ago(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return `${seconds} s`;
  return seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function setState(name) {
  state = name;
  showState();
}

function showState() {
  const button = at("live");
  button.dataset.state = state;
  button.lastElementChild.textContent = STATES[state] + (fresh ? ` · ${fresh.toLocaleString()} new` : "");
  showTail();
}

// ------------------------------------------------------------ the end of the page

function isAtEnd() {
  return innerHeight + scrollY >= root.scrollHeight - 120;
}

// Heights are estimates until drawn, so scrolling repeats until the end does not move, or the
// reader scrolls elsewhere.
function toEnd() {
  if (path.at(-1) !== data.leaf) showBranch(data.leaf);
  let tries = 0;
  let still = 0;
  let before = -1;
  let was = 0;
  ledUntil = performance.now() + 600;
  const aim = () => {
    if (scrollY < was - 1 && !isAtEnd()) return;
    scrollTo({ top: root.scrollHeight });
    was = scrollY;
    still = root.scrollHeight === before ? still + 1 : 0;
    before = root.scrollHeight;
    if (still < 3 && tries++ < 30) requestAnimationFrame(aim);
  };
  aim();
  const last = visibleFor(path.at(-1));
  if (last) setCurrent(last);
  fresh = 0;
}

KEYS.G = () => {
  toEnd();
  showState();
};
at("live").addEventListener("click", KEYS.G);
addEventListener("scroll", () => {
  if (!fresh || !isAtEnd()) return;
  fresh = 0;
  showState();
}, { passive: true });
