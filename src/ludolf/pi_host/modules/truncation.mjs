// Limits of tool output by lines and bytes.
export const DEFAULT_MAX_LINES = 2000;
export const DEFAULT_MAX_BYTES = 50 * 1024;
export const GREP_MAX_LINE_LENGTH = 500;

const size = (text) => Buffer.byteLength(text, "utf8");

export function formatSize(bytes) {
  if (bytes < 1024) return `${bytes}B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)}KB`;
  return `${(bytes / (1024 * 1024)).toFixed(1)}MB`;
}

// Keeps the first whole lines.
export function truncateHead(content, options = {}) {
  const state = measure(content, options);
  if (state.fits) return report(state, content, state.lines.length);
  const { lines, maxLines, maxBytes } = state;
  if (size(lines[0]) > maxBytes) {
    return report(state, "", 0, { by: "bytes", firstLineExceedsLimit: true });
  }
  const kept = [];
  let bytes = 0;
  let by = "lines";
  for (const line of lines.slice(0, maxLines)) {
    const more = size(line) + (kept.length ? 1 : 0);
    if (bytes + more > maxBytes) {
      by = "bytes";
      break;
    }
    kept.push(line);
    bytes += more;
  }
  return report(state, kept.join("\n"), kept.length, { by });
}

// Keeps the last whole lines; of a last line that is too long, its end.
export function truncateTail(content, options = {}) {
  const state = measure(content, options);
  if (state.fits) return report(state, content, state.lines.length);
  const { lines, maxLines, maxBytes } = state;
  const kept = [];
  let bytes = 0;
  let by = "lines";
  let lastLinePartial = false;
  for (const line of lines.slice(-maxLines || lines.length).reverse()) {
    const more = size(line) + (kept.length ? 1 : 0);
    if (bytes + more > maxBytes) {
      by = "bytes";
      if (kept.length === 0) {
        kept.push(endOf(line, maxBytes));
        lastLinePartial = true;
      }
      break;
    }
    kept.push(line);
    bytes += more;
  }
  if (kept.length >= maxLines && bytes <= maxBytes) by = "lines"; // pi names this limit first
  return report(state, kept.reverse().join("\n"), kept.length, { by, lastLinePartial });
}

export function truncateLine(line, maxChars = GREP_MAX_LINE_LENGTH) {
  if (line.length <= maxChars) return { text: line, wasTruncated: false };
  return { text: `${line.slice(0, maxChars)}... [truncated]`, wasTruncated: true };
}

function measure(content, { maxLines = DEFAULT_MAX_LINES, maxBytes = DEFAULT_MAX_BYTES }) {
  const lines = content === "" ? [] : content.split("\n");
  if (lines.length && lines.at(-1) === "") lines.pop();
  const bytes = size(content);
  const fits = lines.length <= maxLines && bytes <= maxBytes;
  return { lines, bytes, maxLines, maxBytes, fits };
}

function report(state, content, outputLines, cut = null) {
  return {
    content,
    truncated: cut !== null,
    truncatedBy: cut?.by ?? null,
    totalLines: state.lines.length,
    totalBytes: state.bytes,
    outputLines,
    outputBytes: size(content),
    lastLinePartial: cut?.lastLinePartial ?? false,
    firstLineExceedsLimit: cut?.firstLineExceedsLimit ?? false,
    maxLines: state.maxLines,
    maxBytes: state.maxBytes,
  };
}

// The end of a text that has at most so many bytes, from a whole character on.
function endOf(text, maxBytes) {
  const data = Buffer.from(text, "utf8");
  let start = Math.max(0, data.length - maxBytes);
  while (start < data.length && (data[start] & 0xc0) === 0x80) start += 1;
  return data.subarray(start).toString("utf8");
}
