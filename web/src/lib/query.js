// The search that an address describes: its words, filters and settings.

/** How many results every view shows unless the address says otherwise. */
export const RESULTS = 10;

export const readList = (value) => (value ? value.split(",").map(decodeURIComponent) : []);
export const writeList = (list) => list.map(encodeURIComponent).join(",");

const LISTS = { kind: "kinds", channel: "channels", author: "authors" };
const NUMBERS = ["depth", "min_relevance", "min_similarity"];
export const SETTINGS = ["strategy", "k", "one", "mode", "tokens", "set", ...NUMBERS];
const FILTERS = ["kind", "channel", "author", "since", "until"];

export function readFilters(params) {
  const where = {};
  for (const [name, field] of Object.entries(LISTS)) if (params[name]) where[field] = readList(params[name]);
  if (params.since) where.since = params.since;
  if (params.until) where.until = `${params.until}T23:59:59Z`;
  return Object.keys(where).length ? where : undefined;
}

/** The body of a request for what the address says. */
export function readQuery(params, { k = RESULTS } = {}) {
  const body = { query: params.q.trim(), k: Number(params.k) || k };
  if (params.strategy) body.strategy = params.strategy;
  if (params.mode) body.mode = params.mode;
  for (const name of NUMBERS) if (params[name]) body[name] = Number(params[name]);
  const where = readFilters(params);
  if (where) body.where = where;
  if (params.set) body.settings = readSet(params);
  return body;
}

/** The path of a verb: that of the page where settings are given by name. */
export const pathOf = (params, verb) => (params.set ? `/v1/page/${verb}` : `/v1/${verb}`);

/** The settings by their dotted names that the address gives. */
export function readSet(params) {
  try {
    return JSON.parse(params.set || "{}");
  } catch {
    return {}; // a link that was cut off
  }
}

/** The parameter for settings by name; those that are undefined are left out. */
export function writeSet(settings) {
  const kept = Object.entries(settings).filter(([, value]) => value !== undefined);
  return kept.length ? JSON.stringify(Object.fromEntries(kept)) : "";
}

/** The parameters that filter or tune, as one text: it changes when the search has to run again. */
export function fingerprint(params) {
  return JSON.stringify(["q", ...FILTERS, ...SETTINGS].map((name) => params[name] ?? ""));
}

export const CLEARED = Object.fromEntries([...FILTERS, ...SETTINGS].map((name) => [name, ""]));
export const isFiltered = (params) => [...FILTERS, ...SETTINGS].some((name) => params[name]);

const SAID = {
  k: (value) => `${value} results`,
  one: () => "one passage a document",
  depth: (value) => `${value} considered`,
  min_relevance: (value) => `relevance from ${Math.round(value * 100)}%`,
  min_similarity: (value) => `similarity from ${Math.round(value * 100)}%`,
  mode: (value) => `${value} search`,
  tokens: (value) => `context of ${value} tokens`,
};

/** The settings of an address in words: [what is said, the parameters that take it back]. */
export function describeSettings(params) {
  const found = Object.entries(SAID).filter(([name]) => params[name]).map(([name, say]) => [say(params[name]), { [name]: "" }]);
  const set = readSet(params);
  const weight = set["search.semantic_weight"];
  if (weight !== undefined) found.push([`meaning ${Math.round(weight * 100)}%, words ${Math.round(100 - weight * 100)}%`, { set: writeSet({ ...set, "search.semantic_weight": undefined, "flow.semantic_weight": undefined }) }]);
  for (const [name, value] of Object.entries(set))
    if (!name.endsWith(".semantic_weight")) found.push([`${name} ${value}`, { set: writeSet({ ...set, [name]: undefined }) }]);
  return found;
}

const DAYS = { "last 7 days": 7, "last 30 days": 30, "last year": 365 };
export const SPANS = Object.keys(DAYS);
export const sinceOf = (span) => (DAYS[span] ? new Date(Date.now() - DAYS[span] * 864e5).toISOString().slice(0, 10) : "");
