// The state of the page in its address, after the #: what is typed never reaches a server log by a shared link.

export const VIEWS = ["search", "ask", "library", "conversations", "explain", "quality"];

function parse() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const view = VIEWS.includes(path) ? path : "search";
  return { view, params: Object.fromEntries(new URLSearchParams(query)) };
}

class Route {
  #now = $state.raw(parse());

  constructor() {
    addEventListener("hashchange", () => (this.#now = parse()));
  }

  get view() {
    return this.#now.view;
  }

  get params() {
    return this.#now.params;
  }

  /** The address of a view, in the same collection unless another is named. */
  href(view, params = {}) {
    const kept = Object.entries({ in: this.params.in, ...params }).filter(([, value]) => value !== undefined && value !== null && value !== "");
    const query = new URLSearchParams(kept).toString();
    return `#/${view}${query ? `?${query}` : ""}`;
  }

  go(view, params = {}) {
    history.pushState(null, "", this.href(view, params));
    this.#now = parse();
  }

  /** Changes some parameters of the view that is shown; without `push`, in place. */
  set(changes, { push = false } = {}) {
    const href = this.href(this.view, { ...this.params, ...changes });
    if (href === location.hash) return;
    history[push ? "pushState" : "replaceState"](null, "", href);
    this.#now = parse();
  }

  /** Opens a document beside the view, at a span if one is given. */
  open(id, start, end) {
    this.set({ doc: id, at: start === undefined ? "" : `${start}-${end}` }, { push: true });
  }

  close() {
    this.set({ doc: "", at: "" }, { push: true });
  }
}

export const route = new Route();
addEventListener("popstate", () => dispatchEvent(new HashChangeEvent("hashchange")));
