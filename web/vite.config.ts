// SPDX-License-Identifier: Apache-2.0
//
// How the dashboard is built: relative addresses, so that it works behind any
// prefix; every asset has a hash in its name; nothing inline, as the server's
// Content-Security-Policy allows no inline script or style.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 200,
  },
  worker: { format: "es" },
  server: { proxy: { "/api": process.env.LAPSE_URL ?? "http://127.0.0.1:8080" } },
  test: { include: ["tests/**/*.test.ts"], environment: "node" },
} as Parameters<typeof defineConfig>[0]);
