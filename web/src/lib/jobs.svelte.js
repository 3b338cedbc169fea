// Uploads and the jobs that read them, as they go on. An upload of many files is sent in parts, each a job of its own.
import { ApiError, get, remove, stream, upload } from "./api.js";
import { split } from "./files.js";
import { session } from "./session.svelte.js";
import { toasts } from "./toasts.svelte.js";

const FINISHED = ["done", "failed", "cancelled"];
const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

class Jobs {
  all = $state([]);
  #followed = new Set();
  #onChange = () => {};

  /** The jobs that still run are followed; those that ended are shown only if they did here. */
  async load(onChange) {
    this.#onChange = onChange;
    try {
      const { jobs } = await get("/v1/jobs");
      for (const job of jobs) if (!FINISHED.includes(job.state) && job.kind !== "evaluate") this.#follow(job);
    } catch {
      // without the right to write there are no jobs to show
    }
  }

  /** Sends files, and follows what becomes of them. */
  async upload({ files, hidden = 0 }) {
    if (!files.length) {
      toasts.say(hidden ? "Only hidden files were found there; nothing was sent." : "There are no files in it; nothing was sent.", { tone: "bad" });
      return;
    }
    const { parts, refused } = split(files, session.info?.max_body);
    const entry = this.#add({ id: `upload-${Math.random().toString(36).slice(2)}`, names: files.map((each) => each.path), state: "sending", stage: "", done: 0, total: 0, sent: 0, hidden, ids: [], error: "", result: { failed: refused } });
    const sent = [];
    const whole = sum(parts.flat().map((each) => each.file.size));
    for (const part of parts) {
      const before = sum(sent.flatMap((each) => each.part).map((each) => each.file.size));
      const size = sum(part.map((each) => each.file.size));
      try {
        const job = await upload(part, (share) => (entry.sent = (before + share * size) / whole));
        this.#followed.add(job.id);
        entry.ids = [...entry.ids, job.id];
        sent.push({ job, part });
      } catch (error) {
        entry.result = merge(entry.result, { failed: part.map((each) => ({ source: each.path, reason: error.message })) });
        if (!(error instanceof ApiError) || !error.status) break; // the server is gone
      }
    }
    const total = sum(sent.map(({ part }) => part.length));
    let done = 0;
    for (const { job, part } of sent) {
      if (entry.state !== "cancelled") await this.#watch(entry, job, sent.length > 1 ? { done, total, most: part.length } : null);
      done += part.length;
    }
    if (!FINISHED.includes(entry.state)) entry.state = "done";
    this.#onChange();
  }

  async cancel(entry) {
    entry.state = "cancelled";
    for (const id of entry.ids) {
      try {
        await remove(`/v1/jobs/${id}`);
      } catch (error) {
        if (error.status !== 409 && error.status !== 404) toasts.say(error.message, { tone: "bad" });
      }
    }
  }

  hide(entry) {
    this.all = this.all.filter((each) => each.id !== entry.id);
  }

  async #follow(job) {
    if (this.#followed.has(job.id)) return;
    this.#followed.add(job.id);
    const entry = this.#add({ ...job, names: [], ids: [job.id], result: {} });
    await this.#watch(entry, job, null);
    if (!FINISHED.includes(entry.state)) entry.state = "done";
    this.#onChange();
  }

  /** Follows a job to its end; `within` says where it stands among the parts of an upload. */
  async #watch(entry, job, within) {
    entry.started ??= Date.now();
    try {
      for await (const { data } of stream(`/v1/jobs/${job.id}?follow=true`)) {
        if (data.stage !== entry.stage && !within) entry.started = Date.now();
        const counts = within ? { done: within.done + Math.min(data.done, within.most), total: within.total } : { done: data.done, total: data.total };
        const isOver = FINISHED.includes(data.state);
        const state = entry.state === "cancelled" || data.state === "cancelled" ? "cancelled" : isOver ? entry.state : data.state;
        Object.assign(entry, counts, { stage: data.stage, sent: 1, state });
        if (isOver) entry.result = merge(entry.result, data.result ?? {});
        if (data.state === "failed") entry.error ||= data.error || "The files could not be added.";
        if (data.stage) this.#onChange();
      }
    } catch (error) {
      entry.error ||= error instanceof ApiError ? error.message : String(error);
    }
    if (entry.error && entry.state !== "cancelled") entry.state = "failed";
  }

  #add(entry) {
    this.all = [entry, ...this.all];
    return this.all[0];
  }
}

/** What several jobs did, as one. */
function merge(a, b) {
  const lists = ["added", "changed", "failed", "passed_over", "noted"].map((name) => [name, [...(a[name] ?? []), ...(b[name] ?? [])]]);
  const counts = ["skipped", "chunks"].map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)]);
  return { ...Object.fromEntries([...lists, ...counts]), stopped: a.stopped || b.stopped || "" };
}

export const jobs = new Jobs();
export const isFinished = (job) => FINISHED.includes(job.state);
