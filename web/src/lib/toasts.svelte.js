// Short notices at the foot of the page, one of which may be undone.

class Toasts {
  all = $state([]);
  #next = 1;
  #typed = { field: null, at: 0 };

  constructor() {
    addEventListener("pagehide", () => this.all.forEach((each) => this.end(each.id))); // what waits happens now
  }

  say(text, { tone = "plain", action = "", onAction = null, onEnd = null, seconds = 5 } = {}) {
    const id = this.#next++;
    this.all.push({ id, text, tone, action, onAction, onEnd, seconds, at: performance.now() });
    const toast = this.all.at(-1);
    this.#run(toast, seconds * 1000);
    return id;
  }

  /** The time of a toast has passed: what waited for it happens. */
  end(id) {
    const toast = this.#take(id);
    toast?.onEnd?.();
  }

  act(id) {
    const toast = this.#take(id);
    toast?.onAction?.();
  }

  /** Who points at a toast or has gone to it by keys is not hurried. */
  hold(toast) {
    clearTimeout(toast.timer);
    toast.left = Math.max(1000, toast.due - performance.now());
  }

  release(toast) {
    if (toast.left !== undefined && this.all.some((each) => each.id === toast.id)) this.#run(toast, toast.left);
  }

  /** Remembers what was typed last: the browser's own undo is for what was typed since. */
  note(field) {
    this.#typed = { field, at: performance.now() };
  }

  /** Undoes what the newest toast offers to undo; false where none does, or where `field` has been typed in since. */
  undo(field) {
    const toast = this.all.findLast((each) => each.action);
    if (!toast || (field === this.#typed.field && this.#typed.at > toast.at)) return false;
    this.act(toast.id);
    return true;
  }

  #run(toast, ms) {
    clearTimeout(toast.timer);
    toast.due = performance.now() + ms;
    toast.timer = setTimeout(() => this.end(toast.id), ms);
  }

  #take(id) {
    const toast = this.all.find((each) => each.id === id);
    if (toast) clearTimeout(toast.timer);
    this.all = this.all.filter((each) => each.id !== id);
    return toast;
  }
}

export const toasts = new Toasts();
