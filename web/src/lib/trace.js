// The trace of a search as rows of a timeline, and as a funnel of counts.
import { readSet, writeSet } from "./query.js";
import { formatCount } from "./text.js";

const NAMES = { fused: "fuse the rankings", flow: "steps after the fusion", embed: "embed the question", semantic: "search by meaning", lexical: "search by words", search: "search", rerank: "rerank", dedupe: "remove repeats", budget: "fit the budget" };
export const nameOf = (name) => NAMES[name] ?? name.replace(/_/g, " ");

/** The steps with equal ones that have no steps of their own as one, which counts them. */
function mergeSteps(steps) {
  const merged = [];
  for (const step of steps) {
    const same = step.steps.length ? null : merged.find((each) => each.name === step.name && !each.steps.length);
    if (!same) merged.push({ ...step, times: 1 });
    else Object.assign(same, { times: same.times + 1, ms: same.ms + step.ms, out: step.out === null ? same.out : (same.out ?? 0) + step.out });
  }
  return merged;
}

/** Rows with their depth and place in time; steps follow one another within the step that holds them. */
export function makeRows(trace) {
  const rows = [];
  const total = Math.max(trace.ms, 0.001);
  function walk(step, depth, from) {
    const notes = Object.entries(step.notes ?? {}).map(([key, value]) => (key === "reason" ? `because ${value}` : `${key} ${value}`));
    rows.push({ name: step.name, label: nameOf(step.name) + (step.times > 1 ? ` × ${step.times}` : ""), depth, ms: step.ms, out: step.out, notes: notes.join(", "), left: from / total, width: step.ms / total });
    let at = from;
    const inner = step.steps.reduce((sum, each) => sum + each.ms, 0);
    const scale = inner > step.ms && inner > 0 ? step.ms / inner : 1; // steps that ran side by side
    for (const each of mergeSteps(step.steps)) {
      walk(each, depth + 1, at);
      at += each.ms * scale;
    }
  }
  for (const step of mergeSteps(trace.steps)) walk(step, 0, 0);
  return rows;
}

/** How many passages were left after each stage: [name, count, what it means]. */
export function makeFunnel({ trace, hits, chunks, context }) {
  const stages = [["collection", chunks, "passages that can be found"]];
  const legs = {};
  const after = [];
  function walk(step) {
    if (step.name === "semantic" || step.name === "lexical") legs[step.name] = (legs[step.name] ?? 0) + (step.out ?? 0);
    else if (step.out !== null && step.name !== "search" && step.name !== "embed") after.push([nameOf(step.name), step.out, ""]);
    step.steps.forEach(walk);
  }
  trace.steps.forEach(walk);
  const found = Object.values(legs).reduce((sum, count) => sum + count, 0);
  if (found) stages.push(["considered", Math.min(found, chunks), Object.entries(legs).map(([name, count]) => `${count} by ${name === "semantic" ? "meaning" : "words"}`).join(", ")]);
  const merged = after.filter(([, count], index) => index === 0 || count !== after[index - 1][1]);
  stages.push(...merged.map(([name, count]) => [name === NAMES.fused ? "ranked" : name, count, "different passages"]));
  stages.push(["returned", hits, "the best of them"]);
  if (context) stages.push(["in the context", context.passages, `${formatCount(context.tokens)} tokens${context.dropped ? `, ${context.dropped} left out` : ""}`]);
  return stages;
}

const FIELDS = { "search.k": "k", "context.k": "k", "search.depth": "depth", "search.min_relevance": "min_relevance", "search.min_similarity": "min_similarity", "search.mode": "mode", "search.strategy": "strategy", "context.tokens": "tokens" };

/** The parameters of an address that try a fix on top of what it says already. */
export function readFix(fix, params) {
  if (!fix) return null;
  const field = FIELDS[fix.setting];
  if (field) return { [field]: fix.value === null ? "" : String(fix.value) };
  if (fix.setting.startsWith("where.")) {
    const one = { kinds: "kind", channels: "channel", authors: "author", since: "since", until: "until" }[fix.setting.slice(6)];
    return one ? { [one]: "" } : { kind: "", channel: "", author: "", since: "", until: "" };
  }
  return { set: writeSet({ ...readSet(params), [fix.setting]: fix.value }) };
}
