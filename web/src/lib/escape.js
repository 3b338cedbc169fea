// What Esc closes: of all that is open, what was opened last.

const opened = [];

/** `close` is called at Esc, until what this returns is called. */
export function onEscape(close) {
  opened.push(close);
  return () => opened.splice(opened.indexOf(close), 1);
}

addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || !opened.length || document.querySelector("dialog[open]")) return;
  event.preventDefault(); // a search field would be emptied
  opened.at(-1)();
});
