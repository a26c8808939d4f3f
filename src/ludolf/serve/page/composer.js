// The message: sending, steering, stopping, suggestions, images, and the queue.

const MOST_PIXELS = 2000;
const MOST_BYTES = 16 * 1024 * 1024;
const MOST_SHOWN = 8;
const message = at("message");
const OWN_COMMANDS = [
  { name: "compact", description: "Replace old history by a summary", act: (rest) => askHere("compact", rest ? { customInstructions: rest } : {}) },
  { name: "limits", description: "Limit each prompt: turns=20 tokens=100000 cost=0.5", act: setLimits },
  { name: "name", description: "Name the session", act: (rest) => askHere("set_session_name", { name: rest }) },
  { name: "new", description: "New session in the same folder", act: () => start(session.cwd) },
];
let commands = OWN_COMMANDS;
const shells = new Set();
let pictures = [];
let queued = { steering: [], followUp: [] };
let menu = { items: [], chosen: -1, from: 0, turn: 0 };
let hasFiles = true;
const withoutArguments = new Set();

function loadCommands() {
  const id = session.id;
  askHere("get_commands").then((found) => {
    if (session.id !== id) return;
    commands = [...OWN_COMMANDS, ...found.commands];
    withoutArguments.clear();
    // It may have been typed before the commands were known.
    if (document.activeElement === message && message.value.startsWith("/")) suggest();
  }).catch(() => {});
}

// ------------------------------------------------------------ the text

const draftName = () => `ludolf-draft-${session.id ?? ""}`;

function setMessage(text) {
  message.value = text;
  kept.set(draftName(), text);
  fit();
}

function restoreDraft() {
  message.value = kept.get(draftName()) ?? "";
  pictures = [];
  showPictures();
  closeMenu();
  fit();
}

function fit() {
  message.style.height = "auto";
  message.style.height = `${Math.min(message.scrollHeight + 2, innerHeight * 0.4)}px`;
}

function addText(text) {
  setMessage([text, message.value].filter(Boolean).join("\n\n"));
}

async function submit(isLater = false) {
  const text = message.value;
  const images = pictures;
  if (!text.trim() && !images.length) return;
  if (images.reduce((sum, one) => sum + one.data.length, text.length * 3) > MOST_BYTES) {
    toast("The images are too large together. Remove one.");
    return;
  }
  pictures = [];
  setMessage("");
  showPictures();
  closeMenu();
  pinned = true;
  toEnd();
  try {
    if (!session.id && !(await start(""))) throw new Error("");
    await attach();
    await say(text, images, isLater);
  } catch (problem) {
    if (problem.message) complain(problem.message);
    pictures = [...images, ...pictures];
    showPictures();
    addText(text);
  }
}

function setLimits(rest) {
  const given = Object.fromEntries([...rest.matchAll(/(turns|tokens|cost)=([0-9.]+)/g)].map(([, name, value]) => [`max${name[0].toUpperCase()}${name.slice(1)}`, Number(value)]));
  return askHere("set_limits", given).then(() => {
    at("limits").textContent = rest.trim() && `limits: ${rest.trim()}`;
  });
}

// A command of the user; `!!` keeps it from the model.
async function runShell(text) {
  const command = text.replace(/^!+/, "").trim();
  const toolCallId = `${runName}-${sent + 1}`; // of the next frame
  beginTool({ toolCallId, toolName: "bash", args: { command } });
  tools.get(toolCallId).element.dataset.shell = "1";
  shells.add(toolCallId);
  at("stop").hidden = false;
  try {
    await askHere("bash", { command, excludeFromContext: text.startsWith("!!") });
  } finally {
    shells.delete(toolCallId);
    tools.get(toolCallId)?.element.remove();
    tools.delete(toolCallId);
    setRunning(session.running);
    catchUp();
  }
}

function say(text, images, isLater) {
  if (/^\s*!+\s*[^\s!]/.test(text) && !images.length) return runShell(text.trim());
  const [, name, rest] = /^\/(\S+)\s*([\s\S]*)$/.exec(text.trim()) ?? [];
  const own = name && !images.length && OWN_COMMANDS.find((command) => command.name === name);
  if (own) return own.act(rest);
  const content = images.map(({ data: bytes, mimeType }) => ({ type: "image", data: bytes, mimeType }));
  return askHere("prompt", {
    message: text,
    ...(content.length ? { images: content } : {}),
    streamingBehavior: isLater ? "followUp" : "steer",
  });
}

const stop = () => attempt(async () => {
  if (shells.size) await askHere("abort_bash");
  if (!session.running) return;
  if (queued.steering.length || queued.followUp.length) {
    const { steering, followUp } = await askHere("clear_queue");
    addText([...(steering ?? []), ...(followUp ?? [])].join("\n\n"));
  }
  await askHere("abort");
  at("status").textContent = "Stopped";
});

message.addEventListener("input", () => {
  kept.set(draftName(), message.value);
  fit();
  suggest();
});
message.addEventListener("focus", () => {
  if (session.id && link.ready) attach().catch(() => {});
});
message.addEventListener("blur", () => setTimeout(closeMenu, 150));
message.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (!at("complete").hidden && menuKey(event.key)) {
    event.preventDefault();
    return;
  }
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    submit(event.altKey);
  } else if (event.key === "Escape") {
    event.preventDefault();
    if (session.running || shells.size) stop();
    else message.blur();
  }
});
at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
at("stop").addEventListener("click", stop);
KEYS.i = () => message.focus();
KEYS.Escape = ((inner) => () => (document.body.classList.contains("drawer") ? inner() : stop()))(KEYS.Escape);

// ------------------------------------------------------------ the queue

function showQueue(steering, followUp) {
  queued = { steering: [...steering], followUp: [...followUp] };
  const chips = [
    ...queued.steering.map((text, place) => chip("steer", text, "steering", place)),
    ...queued.followUp.map((text, place) => chip("then", text, "followUp", place)),
  ];
  at("queue").replaceChildren(...chips);
}

function chip(kind, text, list, place) {
  const item = make("li");
  const drop = pushButton("×", () => dropQueued(list, place), "drop");
  drop.setAttribute("aria-label", `Remove the queued message: ${text.slice(0, 80)}`);
  item.append(make("b", "", kind), make("span", "", text.slice(0, 300)), drop);
  return item;
}

// The protocol clears the whole queue, so the other messages are queued again.
const dropQueued = (list, place) => attempt(async () => {
  const found = await askHere("clear_queue");
  const rest = { steering: found.steering ?? [], followUp: found.followUp ?? [] };
  rest[list] = rest[list].filter((_, index) => index !== place);
  for (const text of rest.steering) await askHere("steer", { message: text });
  for (const text of rest.followUp) await askHere("follow_up", { message: text });
});

// ------------------------------------------------------------ suggestions

function suggest() {
  const before = message.value.slice(0, message.selectionStart);
  const command = /^\/(\S*)$/.exec(before);
  const argument = /^\/(\S+) (.*)$/.exec(before);
  const file = /(?:^|\s)@([^\s@]*)$/.exec(before);
  const turn = ++menu.turn;
  if (command) {
    const wanted = command[1].toLowerCase();
    const found = commands.filter((one) => one.name.toLowerCase().includes(wanted));
    openMenu(found.map((one) => ({ text: `/${one.name}`, more: one.description ?? "", insert: `/${one.name} ` })), 0);
  } else if (argument && session.attached && completes(argument[1])) {
    suggestArguments(argument[1], argument[2], before.length - argument[2].length);
  } else if (file && session.attached && hasFiles) {
    askHere("find_files", { query: file[1], limit: MOST_SHOWN }).then(({ files }) => {
      if (turn !== menu.turn) return;
      const items = files.map(({ path: place, isDirectory }) => ({ text: place, more: "", insert: `@${place}${isDirectory ? "/" : " "}` }));
      openMenu(items, before.length - file[1].length - 1);
    }).catch(() => {
      hasFiles = false;
      closeMenu();
    });
  } else closeMenu();
}

const completes = (name) =>
  !withoutArguments.has(name) && commands.some((one) => one.name === name && one.source === "extension");

// Offers what an extension completes; a command that completes nothing is not asked about again.
function suggestArguments(name, prefix, from) {
  const { turn } = menu;
  askHere("complete_command", { name, prefix }).then((found) => {
    if (!found) withoutArguments.add(name);
    if (turn !== menu.turn) return;
    const items = found?.items ?? [];
    if (!items.length || items.some(({ value }) => value === prefix)) closeMenu();
    else openMenu(items.map(({ value, label, description }) => ({ text: label, more: description ?? "", insert: value })), from);
  }).catch(closeMenu);
}

function openMenu(items, from) {
  menu = { ...menu, items: items.slice(0, MOST_SHOWN), chosen: 0, from };
  at("complete").hidden = !menu.items.length;
  at("complete").replaceChildren(...menu.items.map(({ text, more }, place) => {
    const row = make("li");
    row.id = `complete-${place}`;
    row.setAttribute("role", "option");
    row.append(make("b", "", text), make("span", "", more));
    row.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      insert(place);
    });
    return row;
  }));
  markMenu();
}

function closeMenu() {
  menu.turn++;
  at("complete").hidden = true;
  message.removeAttribute("aria-activedescendant");
}

function markMenu() {
  [...at("complete").children].forEach((row, place) => row.setAttribute("aria-selected", String(place === menu.chosen)));
  message.setAttribute("aria-activedescendant", `complete-${menu.chosen}`);
}

function menuKey(key) {
  const turn = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (turn) menu.chosen = (menu.chosen + turn + menu.items.length) % menu.items.length;
  if (turn) markMenu();
  else if (key === "Escape") closeMenu();
  else if (key === "Tab") insert(menu.chosen);
  // A command that is written out is sent at once.
  else if (key === "Enter" && message.value.trim() !== menu.items[menu.chosen].text) insert(menu.chosen);
  else return false;
  return true;
}

function insert(place) {
  const end = message.selectionStart;
  message.setRangeText(menu.items[place].insert, menu.from, end, "end");
  setMessage(message.value);
  closeMenu();
  message.focus();
}

// ------------------------------------------------------------ images

const megabytes = (bytes) => `${(bytes / 1024 / 1024).toFixed(1)} MiB`;

async function addImages(files) {
  for (const file of [...files].filter((one) => one.type.startsWith("image/"))) {
    if (file.size > MOST_BYTES) {
      toast(`${file.name || "The image"} has ${megabytes(file.size)}; at most ${megabytes(MOST_BYTES)} can be sent.`);
      continue;
    }
    try {
      const blob = await shrunk(file);
      const url = await dataUrl(blob);
      pictures.push({ url, name: file.name || "image", mimeType: blob.type, data: url.slice(url.indexOf(",") + 1) });
    } catch {
      toast(`${file.name || "The image"} cannot be read as an image.`);
    }
  }
  showPictures();
}

async function shrunk(file) {
  const image = await createImageBitmap(file);
  const scale = MOST_PIXELS / Math.max(image.width, image.height);
  if (scale >= 1 && /^image\/(png|jpeg|gif|webp)$/.test(file.type)) return file;
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(image.width * Math.min(1, scale)));
  canvas.height = Math.max(1, Math.round(image.height * Math.min(1, scale)));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const kind = file.type === "image/jpeg" ? "image/jpeg" : "image/png";
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no image"))), kind, 0.9);
  });
}

function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(blob);
  });
}

function showPictures() {
  at("images").replaceChildren(...pictures.map((picture) => {
    const item = make("li");
    const image = make("img");
    image.src = picture.url;
    image.alt = picture.name;
    const drop = pushButton("×", () => {
      pictures = pictures.filter((one) => one !== picture);
      showPictures();
    }, "drop");
    drop.setAttribute("aria-label", `Remove the image ${picture.name}`);
    item.append(image, drop);
    return item;
  }));
}

message.addEventListener("paste", (event) => {
  const files = [...event.clipboardData.files];
  if (!files.length) return;
  event.preventDefault();
  addImages(files);
});
addEventListener("dragover", (event) => {
  if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
});
addEventListener("drop", (event) => {
  if (!event.dataTransfer?.files.length) return;
  event.preventDefault();
  addImages(event.dataTransfer.files);
});
at("attach").addEventListener("click", () => at("files").click());
at("files").addEventListener("change", () => {
  addImages(at("files").files);
  at("files").value = "";
});
