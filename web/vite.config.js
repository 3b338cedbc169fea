import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// One script and one style sheet under fixed names: the server sends them with a tag, so browsers ask and keep them.
export default defineConfig({
  base: "/page/",
  plugins: [svelte()],
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
