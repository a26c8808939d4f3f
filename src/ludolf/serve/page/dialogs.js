// Questions of the session: approvals and dialogs of extensions, answered here or elsewhere.

const MOST_DETAIL = 20000;
const questions = new Map();
const statuses = new Map();

function showRequest(request) {
  const act = REQUESTS[request.method];
  if (act) act(request);
}

function clearDialogs() {
  questions.clear();
  statuses.clear();
  for (const name of ["dialogs", "widgets", "statuses"]) at(name).replaceChildren();
}

function reply(request, fields) {
  closeQuestion(request.id);
  if (!link.ready) toast("The answer is not sent while the connection is lost.");
  else post({ type: "extension_ui_response", session: session.id, id: request.id, ...fields });
}

function closeQuestion(id) {
  const panel = questions.get(id);
  if (!panel) return false;
  const hadFocus = panel.contains(document.activeElement);
  questions.delete(id);
  panel.remove();
  if (hadFocus) ([...questions.values()].at(-1) ?? at("message")).focus();
  return true;
}

// ------------------------------------------------------------ one question

function openQuestion(request, ...parts) {
  closeQuestion(request.id);
  const panel = make("section", "question");
  panel.tabIndex = -1;
  panel.setAttribute("aria-label", request.title ?? "Question");
  panel.append(make("h2", "", request.title ?? "Question"), ...parts.filter(Boolean));
  panel.dismiss = () => (request.method === "open_url" ? closeQuestion(request.id) : reply(request, { cancelled: true }));
  questions.set(request.id, panel);
  const typing = document.activeElement?.matches("input, textarea, select") && document.activeElement.value;
  at("dialogs").append(panel);
  at("status").textContent = `Question: ${request.title ?? ""}`;
  if (!typing && document.activeElement?.closest("dialog, .side") === null) panel.focus({ preventScroll: true });
}

function buttons(request, choices) {
  const row = make("div", "choices");
  choices.forEach(([text, fields], place) => {
    const button = pushButton(text, () => reply(request, fields), place ? "push" : "push main");
    if (place < 9) {
      button.dataset.key = String(place + 1);
      button.prepend(make("kbd", "", String(place + 1)));
      button.setAttribute("aria-keyshortcuts", String(place + 1));
    }
    row.append(button);
  });
  return row;
}

// What a tool call that waits for approval would do.
function detailOf({ args, risk }) {
  if (!args || typeof args !== "object") return null;
  const box = make("pre", "detail-of");
  const edits = Array.isArray(args.edits) ? args.edits : [args];
  const sides = edits.flatMap((edit) => [["d-del", edit?.oldText ?? edit?.old_string], ["d-add", edit?.newText ?? edit?.new_string]]);
  if (typeof args.command === "string") box.append(args.command.slice(0, MOST_DETAIL));
  else if (sides.some(([, text]) => typeof text === "string")) {
    for (const [kind, text] of sides) {
      for (const line of typeof text === "string" ? text.slice(0, MOST_DETAIL).split("\n") : []) box.append(make("span", kind, line || " "));
    }
  } else if (typeof args.content === "string") box.append(args.content.slice(0, MOST_DETAIL));
  else box.append(JSON.stringify(args, null, 2).slice(0, MOST_DETAIL));
  if (risk) box.dataset.risk = risk;
  return box;
}

function field(request, element) {
  const form = make("form", "answer");
  element.value = request.prefill ?? "";
  element.setAttribute("aria-label", request.title ?? "Answer");
  if (request.placeholder) element.placeholder = request.placeholder;
  const send = make("button", "push main", "Answer");
  form.append(element, send, pushButton("Dismiss", () => reply(request, { cancelled: true })));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    reply(request, { value: element.value });
  });
  return form;
}

function linkTo(url) {
  const safe = /^https?:\/\//i.test(url ?? "");
  const element = make(safe ? "a" : "code", "", String(url));
  if (safe) Object.assign(element, { href: url, target: "_blank", rel: "noopener noreferrer" });
  return element;
}

const REQUESTS = {
  select: (request) => {
    const choices = (request.options ?? []).map((option) => [option, { value: option }]);
    openQuestion(request, detailOf(request), buttons(request, choices));
  },
  confirm: (request) =>
    openQuestion(
      request,
      request.message && make("p", "", request.message),
      buttons(request, [["Yes", { confirmed: true }], ["No", { confirmed: false }]]),
    ),
  input: (request) => openQuestion(request, field(request, make("input"))),
  editor: (request) => openQuestion(request, field(request, make("textarea"))),
  cancel: ({ targetId, by }) => {
    if (closeQuestion(targetId) && by && by !== link.client) toast(`Answered by ${clientName(by)}`);
    refreshSessions(false);
  },
  notify: ({ message }) => complain(message ?? ""),
  setStatus: ({ statusKey, statusText }) => {
    if (statusText) statuses.set(statusKey, statusText);
    else statuses.delete(statusKey);
    at("statuses").textContent = [...statuses.values()].join(" · ");
  },
  setWidget: ({ widgetKey, widgetLines }) => {
    for (const old of [...at("widgets").children]) if (old.dataset.key === widgetKey) old.remove();
    if (!widgetLines) return;
    const box = make("pre", "widget", widgetLines.join("\n"));
    box.dataset.key = widgetKey;
    at("widgets").append(box);
  },
  set_editor_text: ({ text }) => setMessage(text ?? ""),
  open_url: (request) =>
    openQuestion(
      { ...request, title: request.instructions ?? "Open this address" },
      linkTo(request.launchUrl ?? request.url),
      pushButton("Close", () => closeQuestion(request.id)),
    ),
};

document.addEventListener("keydown", (event) => {
  if (!questions.size || event.ctrlKey || event.metaKey || event.altKey) return;
  const panel = event.target.closest?.(".question") ?? [...questions.values()][0];
  if (event.target.closest("input, textarea, select, dialog") && event.key !== "Escape") return;
  if (event.key === "Escape" && event.target.closest(".question")) {
    event.preventDefault();
    event.stopImmediatePropagation();
    panel.dismiss();
    return;
  }
  const button = /^[1-9]$/.test(event.key) && panel.querySelector(`[data-key="${event.key}"]`);
  if (!button) return;
  event.preventDefault();
  button.click();
}, true);
