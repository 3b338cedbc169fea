// That a result or a source was opened, with the question, its document and its rank: told once, and never in the way.
import { post } from "./api.js";

const told = new Set();
let isRefused = false; // a server that only reads keeps none

export function tellOpened(question, document, rank) {
  const key = JSON.stringify([question, document, rank]);
  if (!question || isRefused || told.has(key)) return;
  told.add(key);
  post("/v1/feedback", { question, opened: document, rank }).catch((error) => (isRefused = error.status === 403));
}
