// SPDX-License-Identifier: Apache-2.0
//
// How the dashboard is built: relative addresses, so that it works behind any
// prefix; every asset has a hash in its name; nothing inline, as the server's
// Content-Security-Policy allows no inline script or style.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

/** speedscope as a page of its own, dist/speedscope/: its script, style and page, without font,
 * icons, example and the reader of Java's recordings, which would be more than all the rest. */
function speedscope() {
  const from = "node_modules/speedscope/dist/release/";
  const to = "dist/speedscope/";

  return {
    name: "speedscope",
    closeBundle() {
      mkdirSync(to, { recursive: true });
      for (const name of readdirSync(from)) {
        const text = () => readFileSync(from + name, "utf8");

        if (name === "index.html") writeFileSync(to + name, text().replace(/^.*rel="icon".*\n/gm, ""));
        else if (/^speedscope-.*\.css$/.test(name)) writeFileSync(to + name, text().replace(/@font-face\{[^}]*\}/g, ""));
        else if (/^speedscope-.*\.js$/.test(name)) writeFileSync(to + name, text());
      }
      writeFileSync(to + "LICENSE.txt", readFileSync("node_modules/speedscope/LICENSE"));
    },
  };
}

/** Licences of what is in the page's files. */
function licences(): Plugin {
  return {
    name: "licences",
    closeBundle() {
      const text = ["preact", "uplot"].map((name) => `${name}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8")}`);

      writeFileSync("dist/assets/licences.txt", text.join("\n\n"));
    },
  };
}

/** The program is asked for together with the first file, which imports it when it runs. */
function together(): Plugin {
  return {
    name: "together",
    transformIndexHtml: {
      order: "post",
      handler: (_html, { bundle }) => Object.keys(bundle ?? {}).filter((name) => /\/app-[^/]*\.js$/.test(name))
        .map((name) => ({ tag: "link", attrs: { rel: "modulepreload", crossorigin: true, href: `./${name}` }, injectTo: "head" as const })),
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [speedscope(), licences(), together()],
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    // All that pages share is one file: fewer round trips before the first paint, and less to send.
    rollupOptions: {
      output: {
        manualChunks: (id) => (/\/src\/(main|preload|firstpaint|palette|theme|columns)\.ts$|vite\/preload-helper/.test(id) ? "first"
          : /\/node_modules\/(preact|uplot)\/|\/src\/(ui\/|chart\/|[a-z]+\.tsx?$|pages\/overview)/.test(id) ? "app" : undefined),
      },
    },
    minify: "terser", // 3 % smaller than esbuild's
    reportCompressedSize: false,
    chunkSizeWarningLimit: 200,
  },
  worker: { format: "es" },
  server: { proxy: { "/api": process.env.LAPSE_URL ?? "http://127.0.0.1:8080" } },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
