// Calls of which only the newest counts, one at a time: while one is under way the newest of those asked for waits.
// Nothing is broken off, for the server would finish a search that nobody waits for, beside the one that counts.

export function makeLatest() {
  let busy = false;
  let waiting = null;
  let round = 0;

  async function run(job) {
    busy = true;
    const own = round;
    try {
      const found = await job.call();
      if (own === round) job.onDone(found);
    } catch (error) {
      if (own === round && !waiting) job.onFail(error);
    }
    busy = false;
    const next = waiting;
    waiting = null;
    if (next) run(next);
  }

  return {
    /** Runs `call` now or after the one under way; `onDone` gets what it gives, `onFail` why it failed. */
    run(call, onDone, onFail = () => {}) {
      const job = { call, onDone, onFail };
      if (busy) waiting = job;
      else run(job);
    },
    /** What is under way or waits counts no more. */
    forget() {
      round += 1;
      waiting = null;
    },
  };
}
