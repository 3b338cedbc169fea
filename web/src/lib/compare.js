// What a setting does to a list of hits.

/** The hits after a change, each with what became of it: new, up or down `by` places, same; those that are gone come last. */
export function compare(before, after) {
  const places = new Map(before.map((hit, index) => [hit.chunk.id, index]));
  const rows = after.map((hit, index) => {
    const was = places.get(hit.chunk.id);
    const by = was === undefined ? 0 : was - index;
    return { hit, rank: index + 1, by: Math.abs(by), change: was === undefined ? "new" : by > 0 ? "up" : by < 0 ? "down" : "same" };
  });
  const kept = new Set(after.map((hit) => hit.chunk.id));
  const gone = before.filter((hit) => !kept.has(hit.chunk.id)).map((hit) => ({ hit, rank: 0, by: 0, change: "gone" }));
  return [...rows, ...gone];
}
