// What holds for the whole page: the key, the collection, what the server told of itself, the theme.
import { route } from "./route.svelte.js";

function read(store, name, fallback) {
  try {
    return store.getItem(name) ?? fallback;
  } catch {
    return fallback;
  }
}

function write(store, name, value) {
  try {
    if (value === "" || value === null) store.removeItem(name);
    else store.setItem(name, value);
  } catch {
    // a browser that keeps nothing still works
  }
}

class Session {
  key = $state(read(sessionStorage, "clew.key", "") || read(localStorage, "clew.key", ""));
  theme = $state(read(localStorage, "clew.theme", "system"));
  needsKey = $state(false);
  refusal = $state("");
  info = $state(null);
  status = $state(null);
  names = $state(null);
  collections = $state([]);
  problem = $state(null);

  /** Asks for a key; one that was refused is told why. */
  refuse(message) {
    this.refusal = this.key ? message : "";
    this.needsKey = true;
  }

  signIn(key, keep) {
    this.key = key.trim();
    write(sessionStorage, "clew.key", this.key);
    write(localStorage, "clew.key", keep ? this.key : "");
    this.needsKey = false;
    this.refusal = "";
  }

  signOut() {
    this.key = "";
    write(sessionStorage, "clew.key", "");
    write(localStorage, "clew.key", "");
    this.needsKey = true;
  }

  /** The collection that the address names; empty: the server's own. */
  get collection() {
    return route.params.in ?? "";
  }

  chooseTheme(theme) {
    this.theme = theme;
    write(localStorage, "clew.theme", theme);
    this.applyTheme();
  }

  applyTheme() {
    if (this.theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
  }

  get isDark() {
    return this.theme === "dark" || (this.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  }
}

export const session = new Session();
session.applyTheme();
