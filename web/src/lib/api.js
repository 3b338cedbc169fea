// Calls of the server: JSON, server-sent events, and errors in its one shape.
import { untrack } from "svelte";
import { explainError } from "./errors.js";
import { session } from "./session.svelte.js";

export class ApiError extends Error {
  constructor(status, body) {
    const error = body?.error ?? {};
    super(error.said || explainError(status, error));
    this.status = status;
    this.code = error.code || "";
  }
}

// A call from within an effect must not make it run again at each change of the address, which is at each key.
function makeHeaders(extra = {}) {
  const key = untrack(() => session.key);
  return key ? { ...extra, authorization: `Bearer ${key}` } : extra;
}

function locate(path, collection = untrack(() => session.collection)) {
  return collection ? `${path}${path.includes("?") ? "&" : "?"}collection=${encodeURIComponent(collection)}` : path;
}

async function send(path, { collection, ...options }) {
  let reply;
  try {
    reply = await fetch(locate(path, collection), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw refuse(0);
  }
  if (reply.ok) return reply;
  throw refuse(reply.status, await reply.json().catch(() => null));
}

export async function get(path, { signal } = {}) {
  return (await send(path, { headers: makeHeaders(), signal })).json();
}

export async function post(path, body, { signal } = {}) {
  const headers = makeHeaders({ "content-type": "application/json" });
  return (await send(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

/** Deletes, also while the page is being left; `collection` is that of a delete that was asked for before. */
export async function remove(path, { collection } = {}) {
  return (await send(path, { method: "DELETE", headers: makeHeaders(), keepalive: true, collection })).json();
}

/** Uploads files under their paths as one job; `onSent` gets the share that has been sent. */
export function upload(files, onSent) {
  const form = new FormData();
  for (const { file, path } of files) form.append("files", file, path);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", locate("/v1/documents"));
    for (const [name, value] of Object.entries(makeHeaders())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && onSent(event.loaded / event.total);
    request.onerror = () => reject(new ApiError(0, { error: { said: "The upload was interrupted. Try it again." } }));
    request.onload = () => {
      const body = parse(request.responseText);
      if (request.status < 300) resolve(body);
      else reject(refuse(request.status, body));
    };
    request.send(form);
  });
}

/**
 * The events of a stream, as {name, data}; an `error` event is thrown. An XMLHttpRequest and no fetch: Chromium counts a
 * stream of events that a reader of fetch has read to its end as broken off (net::ERR_ABORTED).
 */
export async function* stream(path, { body, signal } = {}) {
  const request = new XMLHttpRequest();
  const headers = makeHeaders(body ? { "content-type": "application/json" } : {});
  let wake = () => {};
  let isOver = false;
  request.open(body ? "POST" : "GET", locate(path));
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  request.onprogress = () => wake();
  request.onloadend = () => {
    isOver = true;
    wake();
  };
  signal?.addEventListener("abort", () => request.abort(), { once: true });
  request.send(body ? JSON.stringify(body) : null);
  try {
    for (let read = 0; ; ) {
      const wasOver = isOver; // what came with the end is read once more
      const text = request.status === 200 ? request.responseText : "";
      const end = text.lastIndexOf("\n\n");
      const events = end > read ? text.slice(read, end).split("\n\n") : [];
      if (events.length) read = end + 2;
      for (const event of events) {
        const name = /^event: (.*)$/m.exec(event)?.[1] ?? "message";
        const data = JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? "null");
        if (name === "error") throw new ApiError(500, data);
        yield { name, data };
      }
      if (wasOver) break;
      if (!isOver) await new Promise((resolve) => (wake = resolve));
    }
  } finally {
    if (!isOver) request.abort();
  }
  if (signal?.aborted) throw new DOMException("Stopped", "AbortError");
  if (request.status !== 200) throw refuse(request.status, parse(request.responseText));
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // an answer without JSON is told by its status
  }
}

/** The error of a status; without a status, that the server cannot be reached. */
function refuse(status, body) {
  if (!status) return new ApiError(0, { error: { code: "offline" } });
  const error = new ApiError(status, body);
  if (status === 401) session.refuse(error.message);
  return error;
}
