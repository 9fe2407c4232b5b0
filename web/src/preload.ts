// SPDX-License-Identifier: Apache-2.0
//
// What the first page will ask is asked before the page's program is there: this module is
// in the first, small file. ask() in api.ts takes an answer from here if it asks just that.

/** Names of the loss, as frameworks call it. */
export const LOSSES = ["loss", "train/loss", "train_loss", "val/loss", "val_loss", "eval/loss"];

const waiting = new Map<string, Promise<Response>>();

/** The answer that was asked for in advance, once. */
export function preloaded(address: string): Promise<Response> | undefined {
	const answer = waiting.get(address);

	waiting.delete(address);
	return answer;
}

/** Points to ask for in a chart so wide: one for each pixel, in steps, so that a window that
 * is drawn a little wider does not ask again. */
export function pointsFor(width: number): number {
	return Math.min(4096, Math.max(200, Math.ceil(width / 200) * 200));
}

/** As wide as a chart on the overview will be, in a window so wide. */
export function chartWidth(page: number): number {
	const main = Math.min(page, 2200);

	return page >= 900 ? (main - 32 - 12) / 2 - 18 : main - (page <= 700 ? 20 : 32) - 18;
}

function preload(address: string): Promise<Response> {
	const answer = fetch(address, { credentials: "same-origin", headers: { Accept: "application/json" } });

	answer.catch(() => undefined); // who takes it is told
	waiting.set(address, answer);
	return answer;
}

/** Of an address of a run's overview: the run, and its loss. */
export function preloadPage(hash: string, page: number): { run: Promise<Response>; loss: Promise<Response> } | null {
	const [, id, query = ""] = /^#\/run\/([\w.-]+)(?:\/overview)?\/?(?:\?(.*))?$/.exec(hash) ?? [];
	const q = new URLSearchParams(query);

	if (!id || id === "last") {
		preload("api/v1/info");
		return null;
	}
	const run = preload(`api/v1/runs/${id}`);

	if (q.has("zoom")) return null;
	const axis = ["step", "relative"].find((a) => a === q.get("axis")) ?? "time";
	const ask = new URLSearchParams();

	for (const name of LOSSES) ask.append("series", name);
	ask.append("points", String(pointsFor(chartWidth(page))));
	ask.append("axis", axis);
	ask.append("group", "none");
	ask.append("optional", "1");
	ask.append("format", "binary");
	return { run, loss: preload(`api/v1/runs/${id}/query?${ask}`) };
}
