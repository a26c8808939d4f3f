// The tree of entries and the branch that is shown.

const root = document.documentElement;
const at = (id) => document.getElementById(id);
const data = JSON.parse(at("data").textContent);
let size = data.ids.length;
const byId = new Map(data.ids.map((id, index) => [id, index]));
const below = new Map();
const roots = [];
for (let index = 0; index < size; index++) {
  const parent = data.parents[index];
  if (parent < 0) roots.push(index);
  else if (below.has(parent)) below.get(parent).push(index);
  else below.set(parent, [index]);
}
// Whether an entry or something below it is more than bookkeeping, as labels and names are.
const shown = new Array(size).fill(false);
for (let index = size - 1; index >= 0; index--) {
  shown[index] ||= data.kinds[index] !== "q";
  if (shown[index] && data.parents[index] >= 0) shown[data.parents[index]] = true;
}
const waysFrom = (parent) =>
  (parent < 0 ? roots : (below.get(parent) ?? [])).filter((index) => shown[index]);

const conversation = at("conversation");
const articles = new Map();
for (const group of conversation.children) {
  for (const element of group.children) articles.set(Number(element.dataset.i), element);
}
const GROUP = 40;

let path = pathTo(data.leaf);
let onPath = new Set(path);
const open = { thinking: false, output: true };
const whenBranchChanges = [];

function pathTo(leaf) {
  const found = [];
  for (let index = leaf; index >= 0 && found.length <= size; index = data.parents[index]) found.push(index);
  return found.reverse();
}

// The newest end of the tree below an entry.
function leafBelow(index) {
  let last = index;
  for (let step = 0; below.has(last) && step < size; step++) {
    last = waysFrom(last).at(-1) ?? below.get(last).at(-1);
  }
  return last;
}

// The article of any entry; those of other branches wait in templates.
function articleOf(index) {
  let element = articles.get(index);
  if (!element) {
    const stored = at(`t-${index}`);
    if (!stored) return null;
    element = stored.content.firstElementChild.cloneNode(true);
    prepare(element);
    articles.set(index, element);
  }
  return element;
}

function contentOf(index) {
  return articles.get(index) ?? at(`t-${index}`)?.content ?? null;
}

function showBranch(leaf) {
  const wanted = pathTo(leaf);
  let same = 0;
  while (same < wanted.length && wanted[same] === path[same]) same++;
  for (const index of path.slice(same)) articles.get(index)?.remove();
  for (const group of [...conversation.children]) if (!group.firstElementChild) group.remove();
  let group = conversation.lastElementChild;
  for (const index of wanted.slice(same)) {
    if (!group || group.childElementCount >= GROUP) {
      group = document.createElement("div");
      group.className = "group g4";
      conversation.append(group);
    }
    const element = articleOf(index);
    if (element) group.append(element);
  }
  path = wanted;
  onPath = new Set(path);
  markForks();
  for (const notify of whenBranchChanges) notify();
}

function markForks() {
  for (const link of document.querySelectorAll(".fork a[data-go]")) {
    if (onPath.has(Number(link.dataset.go))) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

// Quiet entries are hidden unless everything is shown; the nearest one above stands for them.
function visibleFor(index) {
  const place = path.indexOf(index);
  for (let step = place; step >= 0; step--) {
    const element = articles.get(path[step]);
    if (element && isShown(element)) return element;
  }
  return null;
}

function isShown(element) {
  return !element.classList.contains("quiet") || root.classList.contains("everything");
}

function goTo(index, { remember = true, range = null } = {}) {
  if (!(index >= 0 && index < size)) return;
  if (!onPath.has(index)) showBranch(leafBelow(index));
  const element = visibleFor(index);
  if (!element) return;
  if (remember) history.pushState(null, "", hashOf(index));
  scrollToElement(element, range);
  setCurrent(element, true);
}

// Heights are estimates until drawn, so the target is computed again afterwards.
function scrollToElement(element, range) {
  const target = range ? range.startContainer.parentElement : element;
  const block = range ? "center" : "start";
  let tries = 0;
  let still = 0;
  ledUntil = performance.now() + 600;
  const aim = () => {
    const before = target.getBoundingClientRect().top;
    target.scrollIntoView({ block });
    still = Math.abs(target.getBoundingClientRect().top - before) < 1 ? still + 1 : 0;
    if (still < 3 && tries++ < 30) requestAnimationFrame(aim);
  };
  aim();
}

function hashOf(index) {
  const entry = `entry-${encodeURIComponent(data.ids[index])}`;
  const leaf = path.at(-1);
  return leaf === data.leaf ? `#${entry}` : `#leaf-${encodeURIComponent(data.ids[leaf])}&${entry}`;
}

function followHash() {
  const parts = new Map();
  for (const part of location.hash.slice(1).split("&")) {
    const dash = part.indexOf("-");
    parts.set(part.slice(0, dash), decode(part.slice(dash + 1)));
  }
  const leaf = byId.get(parts.get("leaf"));
  const entry = byId.get(parts.get("entry"));
  if (leaf !== undefined && leaf !== path.at(-1)) showBranch(leaf);
  if (entry !== undefined) goTo(entry, { remember: false });
  else if (leaf !== undefined) goTo(leaf, { remember: false });
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// ------------------------------------------------------------ the current entry

let current = null;
// Until then the reader has been led somewhere, even if it cannot be scrolled to the top.
let ledUntil = 0;

function setCurrent(element, marked = false) {
  if (marked) {
    for (const old of conversation.querySelectorAll(".here")) old.classList.remove("here");
    element?.classList.add("here");
  }
  if (element === current) return;
  current = element;
  showCurrentInTree();
}

function currentIndex() {
  return current ? Number(current.dataset.i) : (path[0] ?? -1);
}

// ------------------------------------------------------------ articles made ready

const two = (number) => String(number).padStart(2, "0");

function localTime(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return null;
  const day = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  return `${day} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

function prepare(element) {
  watchCode(element);
  for (const time of element.querySelectorAll("time")) {
    const shown = localTime(time.dateTime);
    if (shown) time.textContent = shown;
  }
  if (open.thinking) setOpen(element, ".thinking", true);
  if (!open.output) setOpen(element, ".call", false);
}

function setOpen(within, selector, wanted) {
  for (const fold of within.querySelectorAll(selector)) fold.open = wanted;
}
