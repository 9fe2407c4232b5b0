// SPDX-License-Identifier: Apache-2.0
//
// The pages. One page is one file in pages/, loaded when it is first shown, and one row here.
import type { ComponentType } from "preact";

export interface Page {
	/** In the address: #/ID, or #/run/RUN/ID. */
	id: string;
	title: string;
	/** The key after "g" that leads here. */
	key: string;
	/** "run": a tab of a run, which uses useRun() (run.tsx). "top": a page of its own. */
	scope: "top" | "run";
	load: () => Promise<{ default: ComponentType }>;
}

export const pages: readonly Page[] = [
	{ id: "runs", title: "Runs", key: "r", scope: "top", load: () => import("./pages/runs") },
	{ id: "overview", title: "Overview", key: "o", scope: "run", load: () => import("./pages/overview") },
	{ id: "compare", title: "Compare", key: "c", scope: "top", load: () => import("./pages/compare") },
	{ id: "training", title: "Training", key: "t", scope: "run", load: () => import("./pages/training") },
	{ id: "system", title: "System", key: "s", scope: "run", load: () => import("./pages/system") },
	{ id: "phases", title: "Phases", key: "p", scope: "run", load: () => import("./pages/phases") },
	{ id: "traces", title: "Traces", key: "f", scope: "run", load: () => import("./pages/traces") },
	{ id: "alerts", title: "Alerts", key: "a", scope: "run", load: () => import("./pages/alerts") },
	{ id: "export", title: "Export", key: "e", scope: "run", load: () => import("./pages/export") },
];
