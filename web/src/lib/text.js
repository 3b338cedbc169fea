// Text as it is shown: marked words, excerpts, dates, addresses, sizes.
import { toPlain } from "./blocks.js";

const STOP = new Set(
  ("a an and are as at be but by can could did do does for from had has have how i if in into is it its me my no not " +
    "of on or our shall should so than that the their them then there they this to was we were what when where which " +
    "who whom why will with would you your").split(" "),
);

const stem = (word) => {
  const base = word.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "");
  return base.length > 4 ? base.replace(/(?:ations?|ating|ated|ates?|ings?|ied|ies|ed|es|s|e|y)$/, "") : base.replace(/(?<=\w{3})s$/, "");
};

/** The stems of a question's words that carry meaning. */
export function stemsOf(query) {
  const words = query.match(/[\p{L}\p{N}][\p{L}\p{N}_-]*/gu) ?? [];
  return new Set(words.filter((word) => word.length > 1 && !STOP.has(word.toLowerCase())).map(stem));
}

/** The text in parts, [text, whether it is a word of the question]. */
export function mark(text, stems) {
  if (!stems?.size) return [[text, false]];
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(/[\p{L}\p{N}][\p{L}\p{N}_-]*/gu)) {
    if (!stems.has(stem(found[0]))) continue;
    const between = text.slice(last, found.index);
    if (parts.length && !between.trim() && between.length < 2) parts.at(-1)[0] += between + found[0]; // words side by side are one mark
    else {
      if (between) parts.push([between, false]);
      parts.push([found[0], true]);
    }
    last = found.index + found[0].length;
  }
  if (last < text.length) parts.push([text.slice(last), false]);
  return parts;
}

/** The stretch of a text in parts with most words of the question, about `size` characters long. */
export function excerpt(parts, stems, size = 300) {
  const text = parts.map((part) => part.text).join("");
  if (text.length <= size * 1.15) return parts;
  const places = [...text.matchAll(/[\p{L}\p{N}][\p{L}\p{N}_-]*/gu)].filter((found) => stems?.has(stem(found[0])));
  let best = 0;
  let most = -1;
  for (const { index } of places) {
    const from = Math.max(0, index - 60);
    const words = new Set(places.filter((each) => each.index >= from && each.index < from + size).map((each) => stem(each[0])));
    if (words.size > most) [best, most] = [from, words.size];
  }
  const start = best < 80 ? 0 : text.indexOf(" ", best) + 1;
  const last = text.lastIndexOf(" ", start + size);
  const end = start + size >= text.length ? text.length : last > start ? last : start + size;
  const cut = [];
  let at = 0;
  for (const part of parts) {
    const text = part.text.slice(Math.max(0, start - at), Math.max(0, end - at));
    if (text) cut.push({ ...part, text });
    at += part.text.length;
  }
  const gap = (isCut, sign) => (isCut ? [{ kind: "plain", text: sign }] : []);
  return [...gap(start > 0, "… "), ...cut, ...gap(end < text.length, " …")];
}

const MINUTE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const AGO = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

export const formatTime = (at) => (at ? MINUTE.format(new Date(at)) : "");
export const formatDay = (at) => (at ? DAY.format(new Date(at)) : "");
/** A day, or the first and last of several: "2026-03-01..2026-03-07". */
export const formatDays = (days) => [...new Set(days.split(".."))].map(formatDay).join(" – ");
export const formatClock = (at) => (at ? TIME.format(new Date(at)) : "");

export function formatAgo(at) {
  if (!at) return "";
  const seconds = (new Date(at) - Date.now()) / 1000;
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]])
    if (Math.abs(seconds) >= size) return Math.abs(seconds) > 30 * 86400 ? formatDay(at) : AGO.format(Math.round(seconds / size), unit);
  return "just now";
}

const WHOLE = new Intl.NumberFormat();
export const formatCount = (count) => WHOLE.format(count);
export const plural = (count, one, many = `${one}s`) => `${formatCount(count)} ${count === 1 ? one : many}`;
export const formatMs = (ms) => (ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : ms >= 10 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`);
export const formatShare = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)}%`);

/** An address without the folders that say nothing: the last three parts of a path, the host of a page. */
export function shortUri(uri) {
  if (!uri) return "";
  if (/^https?:/.test(uri)) return uri.replace(/^https?:\/\//, "");
  const parts = uri.split("/").filter(Boolean);
  return parts.length > 3 ? parts.slice(-3).join("/") : parts.join("/");
}

export const isThread = (kind) => kind === "thread" || kind === "message";

/** A title as it is shown: that of a thread without its channel, which stands beside it, and without names of emoji. */
export function cleanTitle(document, channel = document.meta?.channel) {
  const title = document.title || shortUri(document.uri) || document.id;
  if (!channel && !isThread(document.kind) && !document.message) return toPlain(title); // a citation names its message
  const start = channel ? `#${channel}: ` : (/^#.*?: /.exec(title)?.[0] ?? "");
  const said = title.startsWith(start) ? title.slice(start.length) : title;
  return toPlain(said.replace(/:[a-z][a-z0-9_+-]*:\s*/g, "")) || title;
}

/** The hue of a name, always the same; names that are alike get hues far apart. */
export function hueOf(name) {
  let hash = 2166136261;
  for (const letter of name) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0;
  return Math.round((hash % 997) * 137.508) % 360;
}

/** The place in a JavaScript string of a place counted in characters, as Python counts. */
export function toUnits(text, points) {
  let units = 0;
  for (let seen = 0; seen < points && units < text.length; seen++) units += text.codePointAt(units) > 0xffff ? 2 : 1;
  return units;
}
