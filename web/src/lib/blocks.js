// A document of Markdown as blocks with their places, so that a span can be shown where it stands.

const FENCE = /^(```|~~~)/;
const HEADING = /^(#{1,6})\s+(.*?)\s*#*$/;
const ITEM = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/;
const ROW = /^\s*\|.*\|\s*$/;

/** The blocks of a text: {kind, start, end, …}, in order. */
export function parseBlocks(text) {
  const lines = [];
  let at = 0;
  for (const line of text.split("\n")) {
    lines.push({ line, start: at, end: at + line.length });
    at += line.length + 1;
  }
  const blocks = [];
  for (let i = 0; i < lines.length; ) {
    const { line, start } = lines[i];
    const heading = HEADING.exec(line);
    if (!line.trim()) {
      i++;
    } else if (FENCE.test(line)) {
      let last = i + 1;
      while (last < lines.length && !FENCE.test(lines[last].line)) last++;
      const code = lines.slice(i + 1, last).map((each) => each.line).join("\n");
      last = Math.min(last, lines.length - 1);
      blocks.push({ kind: "code", start, end: lines[last].end, text: code });
      i = last + 1;
    } else if (heading) {
      blocks.push({ kind: "heading", level: heading[1].length, start, end: lines[i].end, text: heading[2] });
      i++;
    } else if (ROW.test(line)) {
      let last = i;
      while (last + 1 < lines.length && ROW.test(lines[last + 1].line)) last++;
      const rows = lines.slice(i, last + 1).map(({ line, start, end }) => ({ start, end, cells: splitRow(line) }));
      const has = rows.length > 1 && rows[1].cells.every((cell) => /^:?-+:?$/.test(cell));
      blocks.push({ kind: "table", start, end: lines[last].end, head: has ? rows[0] : null, rows: has ? rows.slice(2) : rows });
      i = last + 1;
    } else if (/^\s*(?:-{3,}|\*{3,}|_{3,})\s*$/.test(line)) {
      blocks.push({ kind: "rule", start, end: lines[i].end });
      i++;
    } else {
      const item = ITEM.exec(line);
      let last = i;
      const isPlain = (text) => text.trim() && !HEADING.test(text) && !FENCE.test(text) && !ROW.test(text) && !ITEM.test(text);
      while (last + 1 < lines.length && isPlain(lines[last + 1].line)) last++;
      const { end } = lines[last];
      const kind = item ? "item" : /^\s*>/.test(line) ? "quote" : "text";
      const block = { kind, start, end, text: joinLines(kind, text.slice(start, end)) };
      blocks.push(item ? { ...block, depth: Math.floor(item[1].length / 2), sign: /\d/.test(item[2]) ? item[2] : "•" } : block);
      i = last + 1;
    }
  }
  return blocks;
}

/** The lines of a block as one, without the signs before them. */
function joinLines(kind, text) {
  const joined = text.split("\n").map((line) => line.trim()).join(" ");
  return kind === "item" ? joined.replace(/^([-*+]|\d+[.)])\s+/, "") : kind === "quote" ? joined.replace(/(^|\s)>\s?/g, "$1") : joined;
}

/** The text of a block in three: before a span of the document, in it, and after it. */
export function cutBlock(document, block, start, end) {
  const at = (place) => (place <= block.start ? 0 : place >= block.end ? block.text.length : joinLines(block.kind, document.slice(block.start, place)).length);
  const [before, to] = [at(start), at(end)];
  const from = before + (block.text[before] === " "); // the place is counted without the space before it
  return [block.text.slice(0, from), block.text.slice(from, to), block.text.slice(to)];
}

const splitRow = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

/** A line of Markdown in parts: {text, kind}, kind one of plain, code, strong, em, link. */
export function parseInline(text) {
  const parts = [];
  let last = 0;
  const put = (kind, shown, found) => {
    if (found.index > last) parts.push({ kind: "plain", text: text.slice(last, found.index) });
    parts.push({ kind, text: shown });
    last = found.index + found[0].length;
  };
  for (const found of text.matchAll(/`([^`]+)`|(?<![\w*])\*\*(?!\s)([^*]+)(?<!\s)\*\*(?![\w*])|!?\[([^\]]+)\]\([^)]*\)|(?<![\w*])[*_]([^*_\s][^*_]*)(?<!\s)[*_](?![\w*])/g)) {
    if (found[1]) put("code", found[1], found);
    else if (found[2]) put("strong", found[2], found);
    else if (found[3]) put("link", found[3].replace(/`/g, ""), found);
    else put("em", found[4], found);
  }
  if (last < text.length) parts.push({ kind: "plain", text: text.slice(last) });
  return parts;
}

/** A line of Markdown without its marks. */
export const toPlain = (text) => parseInline(text).map((part) => part.text).join("");

/** A table as one line, its cells and rows set apart. */
export const joinTable = ({ head, rows }) => [...(head ? [head] : []), ...rows].map((row) => row.cells.join(" · ")).join("; ");

/** What a hit says in parts on one line, as its source shows it, without the headings that are shown above it. */
export function toParts({ chunk, message }) {
  const isCode = chunk.meta?.content === "code" && !/^(```|~~~)/m.test(chunk.text);
  const isMarkdown = !message && !isCode;
  const blocks = isMarkdown ? parseBlocks(chunk.text).filter((block) => block.kind !== "heading" || !chunk.headings?.includes(toPlain(block.text))) : [];
  const parts = blocks.flatMap((block, index) => [...(index ? [{ kind: "plain", text: " " }] : []), ...blockParts(block)]);
  const whole = parts.some((part) => part.text.trim()) ? parts : [{ kind: "plain", text: chunk.text.trim() }];
  return whole.map((part) => ({ ...part, text: part.text.replace(/\s+/g, " ") }));
}

function blockParts(block) {
  if (block.kind === "code") return [block];
  if (block.kind === "heading") return [{ kind: "strong", text: toPlain(block.text) }];
  if (block.kind === "table") return parseInline(joinTable(block));
  return parseInline(block.kind === "item" ? `${block.sign} ${block.text}` : (block.text ?? ""));
}
