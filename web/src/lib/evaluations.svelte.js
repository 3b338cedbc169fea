// Evaluations: the questions for one, the job that measures them, and the runs that are kept.
import { get, post, remove, stream } from "./api.js";
import { plural } from "./text.js";
import { toSentence } from "./errors.js";

class Evaluations {
  runs = $state.raw(null);
  text = $state("");
  from = $state(""); // where the questions are from
  job = $state(null);
  problem = $state("");

  async load() {
    try {
      this.runs = (await get("/v1/evaluations")).runs.toReversed();
    } catch (error) {
      this.problem = error.message;
    }
  }

  /** Takes the questions of a file. */
  async take(file) {
    this.text = await file.text();
    this.from = file.name;
    this.problem = "";
  }

  /** Has the server make questions, of the collection or of feedback. */
  async make(sources) {
    this.problem = "";
    try {
      const { questions } = await post("/v1/evaluations/questions", { sources, count: 100 });
      const isFeedback = sources.includes("feedback");
      if (!questions.length) {
        this.problem = isFeedback ? "Nobody has called an answer good yet, or opened a result: the thumbs below the answers in Ask, and what is opened, make such questions." : "No question could be made: the documents have no headings, titles or replies that ask enough.";
        return;
      }
      this.text = questions.map((each) => JSON.stringify(each)).join("\n");
      this.from = `${plural(questions.length, "question")} made of ${isFeedback ? "feedback" : "the collection"}`;
    } catch (error) {
      this.problem = error.message;
    }
  }

  /** Measures the questions, and follows the job to its end; the id of the run, or nothing if there is none. */
  async start(options) {
    this.problem = "";
    try {
      const questions = readQuestions(this.text);
      this.job = await post("/v1/evaluations", { questions, ...options });
      for await (const { data } of stream(`/v1/jobs/${this.job.id}?follow=true`)) this.job = data;
      if (this.job.state === "failed") throw new Error(toSentence(this.job.error) || "The questions could not be measured.");
      return this.job.result?.run ?? "";
    } catch (error) {
      this.problem = error.message;
      return "";
    } finally {
      this.job = null;
      await this.load();
    }
  }

  async cancel() {
    await remove(`/v1/jobs/${this.job.id}`).catch(() => {}); // it has just ended
  }
}

/** The questions of JSON Lines, or of one list; an Error names the line that cannot be read. */
function readQuestions(text) {
  if (text.trim().startsWith("[")) {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error("The list of questions is not JSON.");
    }
  }
  const found = [];
  for (const [index, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    try {
      found.push(JSON.parse(line));
    } catch {
      throw new Error(`Line ${index + 1} is not JSON. A question is an object such as {"question": "…", "relevant": ["handbook/keys.md"]}.`);
    }
    if (typeof found.at(-1) !== "object" || !found.at(-1)) throw new Error(`Line ${index + 1} is no object; a question is one, such as {"question": "…", "relevant": ["handbook/keys.md"]}.`);
  }
  if (!found.length) throw new Error("There are no questions in it.");
  return found;
}

export const evaluations = new Evaluations();
