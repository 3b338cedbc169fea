// What went wrong, in a sentence for who looks at the page, and what to do about it.

const SENTENCES = {
  offline: "The server cannot be reached. Check that it is running, then try again.",
  invalid_request: "The server does not take this request. Change or clear the filters and settings, then try again.",
  internal_error: "Something went wrong on the server. Try again; if it stays so, its log says why",
  rate_exceeded: "Too many requests at once. Wait a moment, then try again.",
  server_busy: "The server is busy. Wait a moment, then try again.",
  time_exceeded: "This took longer than the server allows. Ask for fewer results, or a shorter question.",
  body_too_large: "This is larger than the server takes at once. Send fewer or smaller files.",
  body_too_slow: "The upload was too slow and broke off. Try it again on a faster connection.",
  not_allowed: "Your key does not allow this. Who runs the server can give you one that does.",
  read_only_store: "This collection can only be read.",
  concurrent_change: "Somebody else is changing this collection. Wait a moment, then try again.",
};

/** The sentence for an error of the server. */
export function explainError(status, { code = "", message = "", request_id: id = "" } = {}) {
  if (/at most \d+ characters/.test(message)) return `The question is too long: it may have ${/at most (\d+)/.exec(message)[1]} characters.`;
  const collection = /^there is no collection '([^']*)'/.exec(message);
  if (collection) return `There is no collection “${collection[1]}” here. Choose another at the top of the page.`;
  if (/^there is no document/.test(message)) return "This document is not in the collection. It may have been deleted or added anew since.";
  const said = SENTENCES[code];
  if (said) return code === "internal_error" ? `${said}${id ? ` (request ${id})` : ""}.` : said;
  return toSentence(message) || `The server answered with status ${status}. Try again in a moment.`;
}

/** A message of the server as a sentence, without advice that only a terminal can follow. */
export function toSentence(message) {
  const parts = (message ?? "").split("; ").filter((part, index) => index === 0 || !/`|\/docs/.test(part));
  const text = parts.join("; ").replace(/\s*`[^`]*`$/, "").trim();
  return text && `${text[0].toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? "" : "."}`;
}

const READABLE = "Text, Markdown, HTML, PDF, office files, mail, pictures of text, code and chat exports can be read.";

/** Why a file was not added. */
export function explainFailure(reason) {
  if (/^is not a format/.test(reason)) return `Files of this kind cannot be read. ${READABLE}`;
  if (reason === "empty") return "Empty: there is nothing to read.";
  return toSentence(reason.replace(/^(is|has|was|cannot|needs) /, "It $1 "));
}
