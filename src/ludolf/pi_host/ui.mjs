// `ctx.ui`: dialogs and notices reach the host; what needs a terminal has no effect.
const nothing = () => {};
const THEMES = "Theme switching not supported in RPC mode";

const plain = (text) => text;
const uncoloured = (_colour, text) => text;
const noSequence = () => "";
const noBorder = () => plain;

// Text without colours, whatever style is asked for.
export const theme = {
  name: "plain",
  fg: uncoloured,
  bg: uncoloured,
  bold: plain,
  italic: plain,
  underline: plain,
  inverse: plain,
  strikethrough: plain,
  getFgAnsi: noSequence,
  getBgAnsi: noSequence,
  getColorMode: () => "256color",
  getThinkingBorderColor: noBorder,
  getBashModeBorderColor: noBorder,
};

export function makeUi(bridge, extension) {
  const { ext, gen } = extension;
  const call = async (method, args, options = {}) => {
    bridge.checkFresh(gen);
    const { signal, timeout } = options ?? {};
    if (signal?.aborted) return undefined;
    return (await bridge.call(ext, `ui.${method}`, { ...args, timeout }, signal)) ?? undefined;
  };
  const tell = (method, args) => {
    bridge.checkFresh(gen);
    bridge.tell(ext, `ui.${method}`, args);
  };
  const last = (method, key, args) => {
    bridge.checkFresh(gen);
    bridge.wire.sendLast(`${ext} ${method} ${key}`, { t: "tell", ext, m: `ui.${method}`, a: args });
  };
  const setText = (text) => tell("set_editor_text", { text: String(text) });
  return {
    select: (title, options, more) => call("select", { title, options }, more),
    confirm: async (title, message, more) => (await call("confirm", { title, message }, more)) === true,
    input: (title, placeholder, more) => call("input", { title, placeholder }, more),
    editor: (title, prefill, more) => call("editor", { title, prefill }, more),
    notify: (message, level) => tell("notify", { message: String(message), level }),
    setStatus: (key, text) => last("set_status", key, { key, text }),
    setWidget(key, lines, options = {}) {
      if (lines !== undefined && !Array.isArray(lines)) return;
      last("set_widget", key, { key, lines, placement: options?.placement });
    },
    setTitle: (title) => last("set_title", "", { title: String(title) }),
    setEditorText: setText,
    pasteToEditor: setText,
    custom: async () => undefined,
    getEditorText: () => "",
    getEditorComponent: () => undefined,
    getToolsExpanded: () => false,
    getAllThemes: () => [],
    getTheme: () => undefined,
    setTheme: () => ({
      success: false,
      error: bridge.info.hasUI ? THEMES : "UI not available",
    }),
    onTerminalInput: () => nothing,
    setWorkingMessage: nothing,
    setWorkingVisible: nothing,
    setWorkingIndicator: nothing,
    setHiddenThinkingLabel: nothing,
    setFooter: nothing,
    setHeader: nothing,
    setEditorComponent: nothing,
    setToolsExpanded: nothing,
    addAutocompleteProvider: nothing,
    theme,
  };
}
