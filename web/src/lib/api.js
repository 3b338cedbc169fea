// Calls of the server: JSON, server-sent events, and errors in its one shape.
import { session } from "./session.svelte.js";

export class ApiError extends Error {
  constructor(status, body) {
    const error = body?.error ?? {};
    super(error.message || `The server answered with status ${status}`);
    this.status = status;
    this.code = error.code || "";
  }
}

function makeHeaders(extra = {}) {
  return session.key ? { ...extra, authorization: `Bearer ${session.key}` } : extra;
}

function locate(path) {
  if (!session.collection) return path;
  return `${path}${path.includes("?") ? "&" : "?"}collection=${encodeURIComponent(session.collection)}`;
}

async function send(path, options) {
  let reply;
  try {
    reply = await fetch(locate(path), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { error: { message: "The server cannot be reached; is it running?", code: "offline" } });
  }
  if (reply.ok) return reply;
  const error = new ApiError(reply.status, await reply.json().catch(() => null));
  if (reply.status === 401) session.refuse(error.message);
  throw error;
}

export async function get(path, { signal } = {}) {
  return (await send(path, { headers: makeHeaders(), signal })).json();
}

export async function post(path, body, { signal } = {}) {
  const headers = makeHeaders({ "content-type": "application/json" });
  return (await send(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

export async function remove(path) {
  return (await send(path, { method: "DELETE", headers: makeHeaders() })).json();
}

/** Uploads files as one job; `onSent` gets the share that has been sent. */
export function upload(files, onSent) {
  const form = new FormData();
  for (const file of files) form.append("files", file, file.name);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", locate("/v1/documents"));
    for (const [name, value] of Object.entries(makeHeaders())) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && onSent(event.loaded / event.total);
    request.onerror = () => reject(new ApiError(0, { error: { message: "The upload was interrupted; try it again." } }));
    request.onload = () => {
      let body = null;
      try {
        body = JSON.parse(request.responseText);
      } catch {
        // an answer without JSON is told by its status
      }
      if (request.status < 300) resolve(body);
      else reject(new ApiError(request.status, body));
    };
    request.send(form);
  });
}

/** The events of a stream, as {name, data}; an `error` event is thrown. */
export async function* stream(path, { body, signal } = {}) {
  const headers = makeHeaders(body ? { "content-type": "application/json" } : {});
  const options = body ? { method: "POST", headers, body: JSON.stringify(body), signal } : { headers, signal };
  const reply = await send(path, options);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += value;
    const events = waiting.split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      const name = /^event: (.*)$/m.exec(event)?.[1] ?? "message";
      const data = JSON.parse(/^data: (.*)$/m.exec(event)?.[1] ?? "null");
      if (name === "error") throw new ApiError(500, data);
      yield { name, data };
    }
  }
}
