// Some pages of the collection to begin with, spread over it: a first-time user sees what there is to ask.
import { get } from "./api.js";
import { cleanTitle } from "./text.js";

const SEEN = 200;

/** Up to `count` pages, spread evenly over the first of them by title. */
export async function loadExamples(count) {
  const { documents } = await get(`/v1/documents?kind=page&limit=${SEEN}`).catch(() => ({ documents: [] }));
  const fitting = documents.filter((each) => /^[\p{L}\p{N}]/u.test(each.title) && each.title.length < 60);
  const seen = new Set();
  const named = fitting.filter((each) => !seen.has(nameInSentence(each)) && seen.add(nameInSentence(each))); // titles repeat
  const step = Math.max(1, Math.floor(named.length / count));
  return named.filter((_, index) => index % step === Math.floor(step / 2)).slice(0, count);
}

/** The title of a page within a sentence: a small letter at the start, but not of a name or a code. */
export function nameInSentence(page) {
  const title = cleanTitle(page);
  return /^\p{Lu}\p{Ll}+(\s\p{Ll}|$)/u.test(title) ? title[0].toLowerCase() + title.slice(1) : title;
}
