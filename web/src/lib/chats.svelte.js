// The conversations with the collection. A server with one user keeps them, so that `clew chat --session` goes on with
// them; with others they stay in this browser, and each question is sent with the turns before it.
import { ApiError, get, remove, stream } from "./api.js";
import { session } from "./session.svelte.js";

const KEY = "clew.chats";
const MAX_CHATS = 20;
const MAX_HISTORY = 12;

/** A turn before anything has come; `draft` is what a model has written and nobody has checked yet. */
const makeTurn = (question, state) => ({ question, state, text: "", draft: "", doing: "", confidence: null, found: true, reason: "", problem: "", sentences: [], steps: [], citations: [], removed: [] });

/** The turns of messages that another program has kept: without verdicts, which it does not keep. */
function makeTurns(messages) {
  const turns = [];
  for (const { role, text } of messages) {
    if (role !== "assistant") turns.push(makeTurn(text, "kept"));
    else if (turns.length) Object.assign(turns.at(-1), { text, sentences: [{ text, verdict: "" }] });
  }
  return turns.length ? turns : [makeTurn("", "kept")];
}

class Chats {
  all = $state(readChats());

  get(id) {
    return this.all.find((chat) => chat.id === id);
  }

  start() {
    const chat = { id: `page-${Math.random().toString(36).slice(2, 8)}`, title: "", turns: [] };
    this.all = [chat, ...this.all].slice(0, MAX_CHATS);
    return this.all[0];
  }

  drop(id) {
    this.all = this.all.filter((chat) => chat.id !== id);
    this.save();
    if (session.info?.keeps_chats) remove(`/v1/page/chats/${encodeURIComponent(id)}`).catch(() => {});
  }

  /** Adds what was asked elsewhere, in a terminal or another browser. */
  async load() {
    const { chats: kept } = await get("/v1/page/chats").catch(() => ({ chats: [] }));
    for (const { name, messages } of kept) {
      const known = this.get(name);
      if (!messages.length || (known && known.turns.length * 2 >= messages.length)) continue;
      const turns = makeTurns(messages);
      if (known) known.turns = turns;
      else this.all = [...this.all, { id: name, title: turns[0].question, turns }];
    }
  }

  save() {
    try {
      const kept = this.all.filter((chat) => chat.turns.length);
      localStorage.setItem(KEY, JSON.stringify(kept));
    } catch {
      // a browser that keeps nothing forgets its conversations
    }
  }

  /** Asks the next question of a chat; the turn fills as the events come. */
  async ask(chat, question, { signal, agent = false, where } = {}) {
    const history = chat.turns
      .flatMap((turn) => [{ text: turn.question }, { text: turn.text || turn.sentences.map((each) => each.text).join(" "), role: "assistant" }])
      .filter((message) => message.text.trim())
      .slice(-MAX_HISTORY);
    chat.title ||= question;
    chat.at = new Date().toISOString();
    chat.turns.push(makeTurn(question, "asking"));
    const turn = chat.turns[chat.turns.length - 1];
    const isKept = session.info?.keeps_chats;
    const path = isKept ? `/v1/page/chats/${encodeURIComponent(chat.id)}` : "/v1/ask";
    const body = isKept ? { query: question } : { query: question, stream: true, history };
    if (agent) body.agent = true;
    if (where) body.where = where;
    try {
      for await (const { name, data } of stream(path, { body, signal })) {
        receive(turn, name, data);
      }
      if (turn.state === "asking") throw new ApiError(0, { error: { said: "The answer broke off. Ask again." } });
    } catch (error) {
      if (turn.state === "asking") turn.state = "failed"; // an answer that is incomplete is shown, with what it lacks
      turn.draft = turn.doing = "";
      turn.problem = error.name === "AbortError" ? "Stopped." : error.message;
    }
    this.save();
  }
}

/** Takes an event of the answer over. */
function receive(turn, name, data) {
  if (name === "token") turn.draft += data.text;
  else if (name === "step_start") {
    turn.draft = ""; // what was written before a tool is called is no part of the answer
    turn.doing = data.name;
  } else if (name === "step") {
    turn.doing = turn.draft = "";
    turn.steps.push(data);
  } else if (name === "sentence") {
    turn.draft = dropStart(turn.draft, data.text);
    const isRefused = data.text.includes("[not supported]");
    turn.sentences.push({ text: data.text.replace(VERDICT, "").trimEnd(), highlight: data.highlight, verdict: isRefused ? "unsupported" : "" });
  } else if (name === "verdict") {
    const judged = turn.sentences.find((each) => !each.verdict && stripMarks(each.text).trim() === stripMarks(data.text).trim());
    if (judged) Object.assign(judged, { verdict: data.verdict, reason: data.reason });
  } else if (name === "answer") finish(turn, data);
}

const VERDICT = /\s*\[not (?:supported|sure|checked)\]/g;
const MARK = /\s*(?:[[【]\s*(?:[a-z]+\s+)?\d[^\]】\n]*[\]】]|\(\d{1,2}\)(?=[\s.!?]|$))/gi; // as the server reads them

const stripMarks = (text) => text.replace(VERDICT, "").replace(MARK, "");

/** What a model has written without a sentence that has been checked since. Its marks may stand before the full stop. */
function dropStart(draft, sentence) {
  const written = stripMarks(draft);
  const last = stripMarks(sentence).trim().slice(-20);
  const at = written.indexOf(last);
  return at < 0 ? draft : written.slice(at + last.length).trimStart();
}

/** Takes over the whole answer: the verdict of each sentence, or that it is quoted where no model wrote it. */
function finish(turn, answer) {
  const shown = answer.sentences.filter((each) => each.shown !== false);
  turn.draft = turn.doing = "";
  turn.text = answer.text;
  turn.found = answer.found;
  turn.confidence = answer.confidence;
  turn.reason = answer.reason || answer.fault;
  turn.removed = answer.removed;
  const citations = tellApart(answer.citations);
  const sentences = shown.length
    ? shown.map((each) => ({ text: each.text, verdict: each.verdict, reason: each.reason, numbers: numbersOf(each.citations, citations) }))
    : (turn.sentences.length ? turn.sentences : [{ text: answer.text }]).map((each) => ({ ...each, numbers: readMarks(each.text).flatMap((mark) => numbersOfMark(mark, each.text, citations)), verdict: answer.found ? (isQuote(each.text, citations) ? "quoted" : "stated") : "" }));
  const order = orderNumbers(sentences, citations);
  turn.citations = citations.map((each) => ({ ...each, number: order.get(each.number) })).sort((a, b) => a.number - b.number);
  turn.sentences = sentences.map((each) => ({ ...each, numbers: each.numbers.map((number) => order.get(number)).filter(Boolean) }));
  turn.state = "done";
}

export const readMarks = (text) => [...(/((?:\s*\[\d+\])+)\s*$/.exec(text)?.[1] ?? "").matchAll(/\d+/g)].map(([digits]) => Number(digits));

/** The numbers of the sources as they are shown: from 1, in the order in which the answer names them. */
function orderNumbers(sentences, citations) {
  const named = [...sentences.flatMap((each) => each.numbers ?? []), ...citations.map((each) => each.number)];
  const known = new Set(citations.map((each) => each.number));
  return new Map([...new Set(named)].filter((number) => known.has(number)).map((number, index) => [number, index + 1]));
}

const keyOf = (citation) => `${citation.document}:${citation.start}-${citation.end}`;

/** The citations, each span once and with a number of its own: two places of one page share theirs in the text. */
function tellApart(citations) {
  const spans = new Map(citations.map((each) => [keyOf(each), each]));
  return [...spans.values()].map((each, index) => ({ ...each, mark: each.number, number: index + 1 }));
}

const toWords = (text) => (text.replace(/(?:\s*\[\d+\])+\s*$/, "").match(/[\p{L}\p{N}]+/gu) ?? []).join(" ").toLowerCase();
const holds = (citation, text) => toWords(citation.quote ?? "").includes(toWords(text)) && toWords(text) !== "";
const isQuote = (text, citations) => citations.some((each) => holds(each, text));

/** The numbers of the places that a mark of the text names: the one that says the sentence, where one does. */
function numbersOfMark(mark, text, all) {
  const named = all.filter((each) => each.mark === mark);
  const saying = named.filter((each) => holds(each, text) || (each.quote && toWords(text).includes(toWords(each.quote))));
  return (saying.length ? saying : named).map((each) => each.number);
}

function numbersOf(citations, all) {
  const numbers = new Map(all.map((each) => [keyOf(each), each.number]));
  const documents = new Map(all.map((each) => [each.document, each.number]));
  return [...new Set((citations ?? []).map((each) => numbers.get(keyOf(each)) ?? documents.get(each.document)).filter(Boolean))];
}

function readChats() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return [...new Map(kept.map((chat) => [chat.id, chat])).values()];
  } catch {
    return [];
  }
}

export const chats = new Chats();
