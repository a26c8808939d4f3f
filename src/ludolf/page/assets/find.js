// Search through all entries of all branches; matches are marked without touching the text.

const box = at("find");
const marks = typeof Highlight === "function" && CSS.highlights ? new Highlight() : null;
if (marks) CSS.highlights.set("found", marks);
const MOST_MARKS = 2000;
const lowered = new Map();
let matches = [];
let match = -1;
let searches = 0;

function textOf(index) {
  let text = lowered.get(index);
  if (text === undefined) {
    text = (contentOf(index)?.textContent ?? "").toLowerCase();
    lowered.set(index, text);
  }
  return text;
}

async function search(words) {
  const mine = ++searches;
  const wanted = words.trim().toLowerCase();
  marks?.clear();
  match = -1;
  matches = [];
  if (!wanted) {
    matched = null;
    showFound("");
    refilter();
    return;
  }
  let pause = performance.now() + 12;
  for (const index of order) {
    if (textOf(index).includes(wanted)) matches.push(index);
    if (performance.now() > pause) {
      await new Promise((resolve) => setTimeout(resolve));
      if (mine !== searches) return;
      pause = performance.now() + 12;
    }
  }
  matched = new Set(matches);
  cursor = -1;
  tree.scrollTop = 0;
  refilter();
  showFound(matches.length ? `${matches.length.toLocaleString()}` : "none");
}

function showFound(text) {
  at("found").textContent = text;
  document.body.classList.toggle("searching", text !== "");
}

function step(by) {
  if (!matches.length) return;
  match = match < 0 ? (by > 0 ? 0 : matches.length - 1) : (match + by + matches.length) % matches.length;
  const index = matches[match];
  goTo(index);
  markMatches(index);
  showFound(`${(match + 1).toLocaleString()}/${matches.length.toLocaleString()}`);
}

// Mark every match in one entry and scroll to the first, opening folds around it.
function markMatches(index) {
  const wanted = box.value.trim().toLowerCase();
  const element = articles.get(index);
  marks?.clear();
  if (!wanted || !element) return;
  const found = rangesIn(element, wanted);
  if (!found.length) return;
  for (const range of found) marks?.add(range);
  const holder = found[0].startContainer.parentElement;
  for (let fold = holder.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.open = true;
  }
  scrollToElement(element, found[0]);
}

// A match may reach over several text nodes, as in coloured code.
function rangesIn(element, wanted) {
  const nodes = [];
  let text = "";
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    nodes.push([text.length, walker.currentNode]);
    text += walker.currentNode.data;
  }
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return [];
  const found = [];
  let place = 0;
  for (let from = lower.indexOf(wanted); from >= 0 && found.length < MOST_MARKS; ) {
    while (place + 1 < nodes.length && nodes[place + 1][0] <= from) place++;
    let last = place;
    const end = from + wanted.length;
    while (last + 1 < nodes.length && nodes[last + 1][0] < end) last++;
    const range = new Range();
    range.setStart(nodes[place][1], from - nodes[place][0]);
    range.setEnd(nodes[last][1], end - nodes[last][0]);
    found.push(range);
    from = lower.indexOf(wanted, end);
  }
  return found;
}

let typing = 0;
box.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => search(box.value), 120);
});
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    event.preventDefault();
    step(event.shiftKey ? -1 : 1);
  } else if (event.key === "Escape") {
    event.preventDefault();
    box.value = "";
    search("");
    box.blur();
  }
  event.stopPropagation();
});
at("next").addEventListener("click", () => step(1));
at("previous").addEventListener("click", () => step(-1));
