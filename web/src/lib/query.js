// The search that an address describes: its words, filters and settings.

export const readList = (value) => (value ? value.split(",").map(decodeURIComponent) : []);
export const writeList = (list) => list.map(encodeURIComponent).join(",");

const LISTS = { kind: "kinds", channel: "channels", author: "authors" };
const NUMBERS = ["depth", "min_relevance", "min_similarity"];

export function readFilters(params) {
  const where = {};
  for (const [name, field] of Object.entries(LISTS)) if (params[name]) where[field] = readList(params[name]);
  if (params.since) where.since = params.since;
  if (params.until) where.until = `${params.until}T23:59:59Z`;
  return Object.keys(where).length ? where : undefined;
}

/** The body of a request for what the address says. */
export function readQuery(params, { k = 12 } = {}) {
  const body = { query: params.q.trim(), k: Number(params.k) || k };
  if (params.strategy) body.strategy = params.strategy;
  if (params.mode) body.mode = params.mode;
  for (const name of NUMBERS) if (params[name]) body[name] = Number(params[name]);
  const where = readFilters(params);
  if (where) body.where = where;
  return body;
}

/** The parameters that filter or tune, as one text: it changes when the search has to run again. */
export function fingerprint(params) {
  return JSON.stringify(["q", "strategy", "kind", "channel", "author", "since", "until", "k", "mode", ...NUMBERS].map((name) => params[name] ?? ""));
}

const DAYS = { "last 7 days": 7, "last 30 days": 30, "last year": 365 };
export const SPANS = Object.keys(DAYS);
export const sinceOf = (span) => (DAYS[span] ? new Date(Date.now() - DAYS[span] * 864e5).toISOString().slice(0, 10) : "");
