import { svelte } from "@sveltejs/vite-plugin-svelte";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vite";

/** The hash of the sources, kept beside what is built from them: a change without a build shows without Node. */
function stampSources() {
  const roots = ["index.html", "package.json", "package-lock.json", "vite.config.js"];
  const below = ["src"].flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((each) => each.isFile())
      .map((each) => `${each.parentPath}/${each.name}`),
  );
  return {
    name: "stamp-sources",
    generateBundle() {
      const hash = createHash("sha256");
      for (const file of [...roots, ...below].sort()) hash.update(`${file}\n`).update(readFileSync(file));
      this.emitFile({ type: "asset", fileName: "sources.sha256", source: `${hash.digest("hex")}\n` });
    },
  };
}

// One script and one style sheet under fixed names: the server sends them with a tag, so browsers ask and keep them.
export default defineConfig({
  base: "/page/",
  plugins: [svelte(), stampSources()],
  build: {
    outDir: "../src/clew/surface/web/page",
    emptyOutDir: true,
    modulePreload: false,
    cssCodeSplit: false,
    target: "es2022",
    rollupOptions: {
      output: { entryFileNames: "app.js", assetFileNames: "app[extname]", codeSplitting: false },
    },
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8080" } },
});
