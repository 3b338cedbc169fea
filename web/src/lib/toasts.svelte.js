// Short notices at the foot of the page, one of which may be undone.

class Toasts {
  all = $state([]);
  #next = 1;

  say(text, { tone = "plain", action = "", onAction = null, onEnd = null, seconds = 5 } = {}) {
    const toast = { id: this.#next++, text, tone, action, onAction, onEnd, seconds };
    toast.timer = setTimeout(() => this.end(toast.id), seconds * 1000);
    this.all.push(toast);
    return toast.id;
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

  /** Undoes what the newest toast offers to undo; false where none does. */
  undo() {
    const toast = this.all.findLast((each) => each.action);
    if (toast) this.act(toast.id);
    return Boolean(toast);
  }

  #take(id) {
    const toast = this.all.find((each) => each.id === id);
    if (toast) clearTimeout(toast.timer);
    this.all = this.all.filter((each) => each.id !== id);
    return toast;
  }
}

export const toasts = new Toasts();
