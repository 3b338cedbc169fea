// The numbers of an evaluation as places in a small plot: 0 to 1 from left to right and from bottom to top.

import { formatMs } from "./text.js";

export const COLOURS = ["var(--accent)", "var(--warn)", "var(--plot-3)", "var(--bad)", "var(--plot-5)", "var(--good)"];
export const colourOf = (index) => COLOURS[index % COLOURS.length];
export const percent = (share) => (share === null || share === undefined ? "–" : (share * 100).toFixed(1));

/** The measure that is compared: nDCG, else the first there is. */
export const mainMeasure = (run) => [`nDCG@${run.k}`, ...Object.keys(run.systems[0]?.measures ?? {})].find((name) => run.systems.some((each) => name in each.measures));

const line = (points) => points.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(4)} ${y.toFixed(4)}`).join("");

/** Quality against cost: a point for each system, with its interval. */
export function plotQuality(run) {
  const measure = mainMeasure(run);
  const shown = run.systems.filter((each) => measure in each.measures);
  const most = Math.max(...shown.map((each) => each.ms.p50 ?? 0), 0) * 1.25 || 1;
  const marks = shown.map((each) => ({ index: run.systems.indexOf(each), x: (each.ms.p50 ?? 0) / most, y: each.measures[measure], low: each.intervals[measure]?.[0], high: each.intervals[measure]?.[1] }));
  return { title: "Quality against cost", x: "median time of a search", y: measure, ends: ["0", formatMs(most)], marks };
}

/** Risk against coverage; nothing where no answers were asked for. */
export function plotRisk(run) {
  const lines = run.systems.map((each, index) => ({ index, d: line(each.risk) })).filter((each) => each.d);
  return { title: "Risk against coverage", x: "questions answered", y: "wrong answers", ends: ["0%", "100%"], lines };
}

/** Recall after each position. */
export function plotRecall(run) {
  const depth = Math.max(...run.systems.map((each) => each.recall.length), 2);
  const lines = run.systems.map((each, index) => ({ index, d: line(each.recall.map((share, place) => [place / (depth - 1), share])) })).filter((each) => each.d);
  return { title: "Recall by position", x: "position", y: "recall", ends: ["1", String(depth)], lines };
}

/** The relevance of relevant and of other results, each as shares of its own. */
export function plotRelevances(system) {
  const shares = ["relevant", "others"].map((name) => {
    const counts = system.relevances[name];
    const total = counts.reduce((sum, each) => sum + each, 0);
    return counts.map((each) => (total ? each / total : 0));
  });
  const most = Math.max(...shares.flat(), 0) || 1;
  const width = 1 / shares[0].length;
  const bars = shares.flatMap((each, kind) => each.map((share, place) => ({ kind, x: (place + kind * 0.5) * width, width: width * 0.45, height: share / most })).filter(({ height }) => height));
  return { title: `Relevance of results, ${system.name}`, x: "relevance", y: "share of its results", ends: ["0%", "100%"], top: `${Math.round(most * 100)}%`, bars };
}
