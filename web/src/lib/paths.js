// Paths as the library shows them: whole, from the folder that all of them are in.

/** The folder that all paths from the root of a disk have in common, with its slash; empty where there is none. */
export function findRoot(uris) {
  const folders = uris.filter((uri) => uri?.startsWith("/")).map((uri) => uri.split("/").slice(0, -1));
  if (!folders.length) return "";
  const [first, ...rest] = folders;
  const differs = first.findIndex((name, index) => rest.some((other) => other[index] !== name));
  return `${(differs < 0 ? first : first.slice(0, differs)).join("/")}/`;
}

/** A path in two parts, the folders and the name: where there is no room, the end of the first is left out. */
export function splitPath(path) {
  const at = path.lastIndexOf("/", path.length - 2);
  return at < 0 ? ["", path] : [path.slice(0, at), path.slice(at)];
}
