// The files of a choice or a drop, each with its path within the folder that was given, in parts that a server takes.

const MAX_FILES = 100; // of one request
const SPARE = 1000; // bytes that a request has around each file
export const EMPTY = "empty";

/** The files that were chosen: of a folder with their paths within it, without what is hidden. */
export const fromInput = (list) => splitHidden([...list].map((file) => ({ file, path: file.webkitRelativePath || file.name })));

/** The files that were dropped, those within folders too. The entries are taken at once: an event forgets them. */
export async function fromDrop(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile()).filter(Boolean);
  const found = await Promise.all(entries.map((each) => (each instanceof File ? [{ file: each, path: each.name }] : readEntry(each))));
  return splitHidden(found.flat());
}

async function readEntry(entry) {
  if (entry.isFile) return [{ file: await new Promise((resolve, reject) => entry.file(resolve, reject)), path: entry.fullPath.replace(/^\//, "") }];
  const reader = entry.createReader();
  const inner = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // about a hundred at a time
    if (!some.length) break;
    inner.push(...some);
  }
  return (await Promise.all(inner.map(readEntry))).flat();
}

/** What a folder hides (.git, .DS_Store) is not meant; a file that was chosen by itself is. */
function splitHidden(all) {
  const isHidden = ({ path }) => path.includes("/") && /(^|\/)\./.test(path);
  return { files: all.filter((each) => !isHidden(each)), hidden: all.filter(isHidden).length };
}

/** The files in parts of at most a hundred and `maxBytes`, and those that cannot be sent, with the reason. */
export function split(files, maxBytes = Infinity) {
  const parts = [];
  const refused = [];
  let room = 0;
  for (const each of files) {
    const size = each.file.size + SPARE;
    if (!each.file.size) refused.push({ source: each.path, reason: EMPTY });
    else if (size > maxBytes) refused.push({ source: each.path, reason: `is larger than the server takes at once (${Math.floor(maxBytes / 2 ** 20)} MB)` });
    else {
      if (!parts.length || size > room || parts.at(-1).length === MAX_FILES) {
        parts.push([]);
        room = maxBytes;
      }
      parts.at(-1).push(each);
      room -= size;
    }
  }
  return { parts, refused };
}
