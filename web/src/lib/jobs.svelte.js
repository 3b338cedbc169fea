// Uploads and the jobs that read them, as they go on.
import { ApiError, get, remove, stream, upload } from "./api.js";
import { toasts } from "./toasts.svelte.js";

const FINISHED = ["done", "failed", "cancelled"];

class Jobs {
  all = $state([]);
  #followed = new Set();
  #onChange = () => {};

  /** The jobs that still run are followed; those that ended are shown only if they did here. */
  async load(onChange) {
    this.#onChange = onChange;
    try {
      const { jobs } = await get("/v1/jobs");
      for (const job of jobs) if (!FINISHED.includes(job.state)) this.#follow(job, []);
    } catch {
      // without the right to write there are no jobs to show
    }
  }

  async upload(files) {
    const entry = this.#add({ id: `upload-${Math.random().toString(36).slice(2)}`, names: files.map((file) => file.name), state: "sending", stage: "uploading", done: 0, total: 1, sent: 0, error: "", result: {} });
    try {
      const job = await upload(files, (share) => (entry.sent = share));
      this.#followed.add(job.id);
      Object.assign(entry, { ...job, names: entry.names, started: Date.now() });
      await this.#watch(entry);
    } catch (error) {
      Object.assign(entry, { state: "failed", error: error.message });
    }
  }

  async cancel(entry) {
    try {
      await remove(`/v1/jobs/${entry.id}`);
    } catch (error) {
      toasts.say(error.message, { tone: "bad" });
    }
  }

  hide(entry) {
    this.all = this.all.filter((each) => each.id !== entry.id);
  }

  async #follow(job, names) {
    if (this.#followed.has(job.id)) return;
    this.#followed.add(job.id);
    const entry = this.#add({ ...job, names, started: Date.now() });
    await this.#watch(entry);
  }

  async #watch(entry) {
    const names = entry.names;
    try {
      for await (const { data } of stream(`/v1/jobs/${entry.id}?follow=true`)) {
        const from = data.stage !== entry.stage ? Date.now() : entry.started;
        Object.assign(entry, data, { names, started: from, sent: 1 });
        if (data.stage) this.#onChange();
      }
    } catch (error) {
      Object.assign(entry, { state: "failed", error: error instanceof ApiError ? error.message : String(error) });
    }
    this.#onChange();
  }

  #add(entry) {
    this.all = [entry, ...this.all];
    return this.all[0];
  }
}

export const jobs = new Jobs();
export const isFinished = (job) => FINISHED.includes(job.state);
