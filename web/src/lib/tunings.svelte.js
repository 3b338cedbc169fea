// Tuned settings: those in use, the job that looks for better ones, what its test said, and the way back.
import { get, post, remove, stream } from "./api.js";
import { toSentence } from "./errors.js";
import { readQuestions } from "./evaluations.svelte.js";

class Tunings {
  kept = $state.raw(null);
  job = $state(null);
  found = $state.raw(null);
  problem = $state("");

  async load() {
    try {
      this.kept = (await get("/v1/tunings")).tuned;
    } catch (error) {
      this.problem = error.message;
    }
  }

  /** Tunes by the questions, and follows the job to its end. */
  async start(text, options) {
    this.problem = "";
    this.found = null;
    try {
      this.job = await post("/v1/tunings", { questions: readQuestions(text), ...options });
      for await (const { data } of stream(`/v1/jobs/${this.job.id}?follow=true`)) this.job = data;
      if (this.job.state === "failed") throw new Error(toSentence(this.job.error) || "Nothing could be tuned.");
      this.found = this.job.result ?? null;
    } catch (error) {
      this.problem = error.message;
    } finally {
      this.job = null;
      await this.load();
    }
  }

  async cancel() {
    await remove(`/v1/jobs/${this.job.id}`).catch(() => {}); // it has just ended
  }

  async rollBack() {
    this.problem = "";
    this.found = null;
    try {
      this.kept = (await post("/v1/tunings/rollback", {})).tuned;
    } catch (error) {
      this.problem = error.message;
    }
  }
}

export const tunings = new Tunings();
