// SPDX-License-Identifier: Apache-2.0
//
// How the dashboard is built: relative addresses, so that it works behind any
// prefix; every asset has a hash in its name; nothing inline but first.ts, as the server's
// Content-Security-Policy allows no other inline script and no inline style.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build, defineConfig, type Plugin, type Rollup } from "vite";

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

/** first.ts in the page itself: a file of its own would be another round trip before anything
 * is asked. Its hash is in the page's Content-Security-Policy (tools/embed-web). */
function first(): Plugin {
  return {
    name: "first",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      async handler(html) {
        const built = await build({
          configFile: false,
          logLevel: "warn",
          build: { write: false, target: "es2022", minify: "terser", modulePreload: false, lib: { entry: "src/first.ts", formats: ["iife"], name: "lapse" } },
        });
        const code = (built as Rollup.RollupOutput[])[0]?.output[0].code.trim() ?? "";
        const program = /\s*<script type="module"[^>]*src="([^"]+)"[^>]*><\/script>/;

        if (!code || !program.test(html) || /<\/script|<!--/i.test(code)) throw new Error("index.html: the program or its first script is not as expected");
        return html.replace(program, (_, src: string) => `\n<script data-program="${src}">${code}</script>`);
      },
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [speedscope(), licences(), first()],
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    // All that pages share is one file: fewer round trips before the first paint, and less to send.
    rollupOptions: {
      output: {
        manualChunks: (id) => (/\/node_modules\/(preact|uplot)\/|\/src\/(ui\/|chart\/|[a-z]+\.tsx?$|pages\/overview)|vite\/preload-helper/.test(id) ? "app" : undefined),
      },
    },
    minify: "terser", // 3 % smaller than esbuild's
    terserOptions: { ecma: 2020, compress: { passes: 2 } },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 200,
  },
  worker: { format: "es" },
  server: { proxy: { "/api": process.env.LAPSE_URL ?? "http://127.0.0.1:8080" } },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
