// Markdown as models write it, read into values: blocks, and the spans of their text. Nothing here touches the page.

const DEEPEST = 12;

// -- blocks -----------------------------------------------------------------------------------------------------------

// No pattern here may try a line in more ways than it has characters: a model may write one of a megabyte.
const FENCE = /^( {0,3})(`{3,}|~{3,})(?!.*`)\s*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})(?=\s)/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const DIVIDER = /^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$/;

/** A text as blocks; each knows its `source`, so that what has not changed need not be drawn again. */
export function blocks(text, depth = 0) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const start = at;
    const [block, end] = depth < DEEPEST ? block_at(lines, at, depth) : [paragraph(lines.slice(at)), lines.length];
    at = end;
    found.push({ ...block, source: lines.slice(start, at).join("\n") });
  }
  return found;
}

function block_at(lines, at, depth) {
  return (
    fenced(lines, at) ??
    heading(lines, at) ??
    rule(lines, at) ??
    quoted(lines, at, depth) ??
    list(lines, at, depth) ??
    table(lines, at) ??
    plain(lines, at)
  );
}

function fenced(lines, at) {
  const opened = FENCE.exec(lines[at]);
  if (!opened) return null;
  const [, indent, fence, language] = opened;
  const closing = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !closing.test(lines[end])) end += 1;
  const code = lines.slice(at + 1, end).map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line));
  return [{ type: "code", language, text: code.join("\n") }, end + 1];
}

function heading(lines, at) {
  const found = HEADING.exec(lines[at]);
  if (!found) return null;
  const said = lines[at].slice(found[0].length).trim();
  let end = said.length;
  while (end > 0 && said[end - 1] === "#") end -= 1;
  return [{ type: "heading", level: found[1].length, text: said.slice(0, end).trimEnd() }, at + 1];
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? [{ type: "rule" }, at + 1] : null;
}

function quoted(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  let end = at;
  while (end < lines.length && lines[end].trim() && (QUOTE.test(lines[end]) || !begins(lines, end))) end += 1;
  const inside = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [{ type: "quote", blocks: blocks(inside.join("\n"), depth + 1) }, end];
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[end])) break;
    const width = found[0].trim() === lines[end].trim() ? found[1].length + found[2].length + 1 : found[0].length;
    const inside = [lines[end].slice(found[0].length)];
    end += 1;
    while (end < lines.length) {
      const indent = lines[end].match(/^ */)[0].length;
      if (!lines[end].trim()) {
        const after = lines.slice(end).findIndex((line) => line.trim());
        if (after < 0 || lines[end + after].match(/^ */)[0].length < Math.min(width, 2)) break;
      } else if (indent < Math.min(width, 2) && (begins(lines, end) || !lines[end - 1].trim())) break;
      inside.push(lines[end].slice(Math.min(indent, width)));
      end += 1;
    }
    items.push(blocks(inside.join("\n"), depth + 1));
    let next = end;
    while (next < lines.length && !lines[next].trim()) next += 1;
    if (next < lines.length && ITEM.test(lines[next])) end = next;
  }
  return items.length ? [{ type: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items }, end] : null;
}

function divides(line) {
  return /^ {0,3}\S/.test(line) && DIVIDER.test(line.trim());
}

function table(lines, at) {
  if (!lines[at].includes("|") || at + 1 >= lines.length || !divides(lines[at + 1])) return null;
  const head = cells(lines[at]);
  const marks = cells(lines[at + 1]);
  if (head.length !== marks.length) return null;
  const align = marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "end") : "start"));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end += 1;
  const rows = lines.slice(at + 2, end).map(cells);
  return [{ type: "table", head, align, rows: rows.map((row) => head.map((_, column) => row[column] ?? "")) }, end];
}

function cells(line) {
  const inside = line
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  const found = [""];
  let code = false;
  for (let at = 0; at < inside.length; at += 1) {
    const letter = inside[at];
    if (letter === "`") code = !code;
    if (letter === "\\" && inside[at + 1] === "|") {
      found[found.length - 1] += "|";
      at += 1;
    } else if (letter === "|" && !code) found.push("");
    else found[found.length - 1] += letter;
  }
  return found.map((cell) => cell.trim());
}

function plain(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !begins(lines, end)) end += 1;
  return [paragraph(lines.slice(at, end)), end];
}

function paragraph(lines) {
  return { type: "paragraph", text: lines.map((line) => line.trimStart()).join("\n") };
}

/** Whether a line ends the paragraph above it. */
function begins(lines, at) {
  const line = lines[at];
  return (
    FENCE.test(line) ||
    HEADING.test(line) ||
    RULE.test(line) ||
    QUOTE.test(line) ||
    ITEM.test(line) ||
    table(lines, at) !== null
  );
}

// -- spans ------------------------------------------------------------------------------------------------------------

const SPECIAL = /[\\`*_~[!<]|https?:\/\/|\n/g;
const ESCAPED = /^\\([!-/:-@[-`{-~])/;
const BARE = /^https?:\/\/[^\s<>"'`|]+/;
const ANGLE = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/;
const STYLES = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" };

/** A line of text as spans. */
export function spans(text, depth = 0) {
  const found = [];
  // A mark that is not closed further on is not closed for any later opening either.
  const unclosed = new Set();
  let said = "";
  const say = (span) => {
    if (said) found.push({ type: "text", text: said });
    said = "";
    found.push(span);
  };
  let at = 0;
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const next = SPECIAL.exec(text)?.index ?? text.length;
    said += text.slice(at, next);
    at = next;
    if (at >= text.length) break;
    const taken = depth < DEEPEST ? span_at(text, at, unclosed, depth) : null;
    if (taken) {
      if (taken[0].type === "text") said += taken[0].text;
      else {
        if (taken[0].type === "break") said = said.trimEnd();
        say(taken[0]);
      }
      at = taken[1];
    } else {
      said += text[at];
      at += 1;
    }
  }
  if (said) found.push({ type: "text", text: said });
  return found;
}

function span_at(text, at, unclosed, depth) {
  switch (text[at]) {
    case "\\": {
      const escaped = ESCAPED.exec(text.slice(at, at + 2));
      if (escaped) return [{ type: "text", text: escaped[1] }, at + 2];
      return text[at + 1] === "\n" ? [{ type: "break" }, at + 2] : null;
    }
    case "\n":
      return text.slice(at - 2, at) === "  " ? [{ type: "break" }, at + 1] : [{ type: "text", text: "\n" }, at + 1];
    case "`":
      return code(text, at, unclosed);
    case "!":
      return text[at + 1] === "[" ? link(text, at + 1, unclosed, depth, "image") : null;
    case "[":
      return link(text, at, unclosed, depth, "link");
    case "<": {
      const found = ANGLE.exec(text.slice(at, at + 2000));
      return (
        found && [{ type: "link", url: found[1], spans: [{ type: "text", text: found[1] }] }, at + found[0].length]
      );
    }
    case "h":
      return bare(text, at);
    default:
      return styled(text, at, unclosed, depth);
  }
}

function code(text, at, unclosed) {
  const ticks = text.slice(at).match(/^`+/)[0];
  if (unclosed.has(ticks)) return [{ type: "text", text: ticks }, at + ticks.length];
  for (let end = text.indexOf(ticks, at + ticks.length); end >= 0; end = text.indexOf(ticks, end)) {
    const run = text.slice(end).match(/^`+/)[0].length;
    if (run === ticks.length) {
      const inside = text.slice(at + ticks.length, end).replace(/\n/g, " ");
      const padded = /^ .* $/.test(inside) && inside.trim();
      return [{ type: "code", text: padded ? inside.slice(1, -1) : inside }, end + run];
    }
    end += run;
  }
  unclosed.add(ticks);
  return [{ type: "text", text: ticks }, at + ticks.length];
}

function link(text, at, unclosed, depth, type) {
  if (unclosed.has("[")) return null;
  const shown = closing(text, at, "[", "]");
  if (shown < 0) {
    unclosed.add("[");
    return null;
  }
  if (text[shown + 1] !== "(") return null;
  const end = closing(text, shown + 1, "(", ")");
  if (end < 0) return null;
  // Names of files have spaces, and models do not escape them.
  const target = text
    .slice(shown + 2, end)
    .trim()
    .replace(/(?<!\s)\s+(?:"[^"]*"|'[^']*')$/, "")
    .replace(/^<(.*)>$/, "$1");
  const inside = text.slice(at + 1, shown);
  if (type === "image") return [{ type, url: target, text: inside }, end + 1];
  return [{ type, url: target, spans: spans(inside, depth + 1) }, end + 1];
}

function closing(text, at, open, close) {
  let deep = 0;
  const last = Math.min(text.length, at + 2000);
  for (let end = at; end < last; end += 1) {
    if (text[end] === "\\") end += 1;
    else if (text[end] === open) deep += 1;
    else if (text[end] === close && --deep === 0) return end;
  }
  return -1;
}

function bare(text, at) {
  if (/\w/.test(text[at - 1] ?? "")) return null;
  let url = BARE.exec(text.slice(at, at + 2000))[0].replace(/[.,:;!?*_~]+$/, "");
  while (url.endsWith(")") && url.split("(").length < url.split(")").length) url = url.slice(0, -1);
  if (/^https?:\/\/$/.test(url)) return null;
  return [{ type: "link", url, spans: [{ type: "text", text: url }] }, at + url.length];
}

function styled(text, at, unclosed, depth) {
  const letter = text[at];
  const mark = text[at + 1] === letter ? letter + letter : letter;
  if (!STYLES[mark]) return null;
  const inside = at + mark.length;
  const word = letter === "_" && /[\p{L}\d]/u.test(text[at - 1] ?? "");
  if (unclosed.has(mark) || word || !/\S/.test(text[inside] ?? " ")) return [{ type: "text", text: mark }, inside];
  for (let end = text.indexOf(mark, inside + 1); end >= 0; end = text.indexOf(mark, end + 1)) {
    const run = text.slice(end).match(letter === "*" ? /^\*+/ : letter === "_" ? /^_+/ : /^~+/)[0].length;
    const fits = mark.length === 1 ? run !== 2 : run >= 2;
    const ends = /\S/.test(text[end - 1]) && (letter !== "_" || !/[\p{L}\d]/u.test(text[end + run] ?? ""));
    if (fits && ends) {
      const close = end + run - mark.length;
      return [{ type: STYLES[mark], spans: spans(text.slice(inside, close), depth + 1) }, close + mark.length];
    }
    end += run - 1;
  }
  unclosed.add(mark);
  return [{ type: "text", text: mark }, inside];
}
