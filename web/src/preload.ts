// SPDX-License-Identifier: Apache-2.0
//
// What the first page will ask is asked before the page's program is there, by first.ts.
// ask() in api.ts takes an answer from here if it asks just that.

/** Names of the loss, as frameworks call it. */
export const LOSSES = ["loss", "train/loss", "train_loss", "val/loss", "val_loss", "eval/loss"];

/** An answer with all of its body: who draws first and the program both read it. */
export interface Answer {
	response: Response;
	body: ArrayBuffer;
}

export type Answers = Map<string, Promise<Answer>>;

declare global {
	interface Window {
		/** What first.ts leaves to the program: answers by address; end() takes the first picture away. */
		lapseFirst?: { answers: Answers; end: () => void };
	}
}

/** An answer that nobody has read is dropped so long after it came. */
export const FRESH_MS = 5000;

/** Where an answer is kept: beside a scroll bar, which first.ts cannot know of, a chart may ask
 * for a step of points less. */
const keyOf = (address: string) => address.replace(/points=\d+/, "");

/** The answer that was asked for in advance, once. */
export function preloaded(address: string): Promise<Response> | undefined {
	const answers = globalThis.window?.lapseFirst?.answers;
	const key = keyOf(address);
	const answer = answers?.get(key);

	answers?.delete(key);
	return answer?.then(({ response, body }) => new Response(body, response));
}

/** Points to ask for in a chart so wide: one for each pixel, in steps, so that a window that
 * is drawn a little wider does not ask again. */
export function pointsFor(width: number): number {
	return Math.min(4096, Math.max(200, Math.ceil(width / 200) * 200));
}

/** As wide as a chart on the overview will be, in a window so wide; inner: without its scroll bar. */
export function chartWidth(page: number, inner = page): number {
	const main = Math.min(inner, 2200);

	return page >= 900 ? (main - 32 - 12) / 2 - 18 : main - (page <= 700 ? 20 : 32) - 18;
}

function preload(answers: Answers, address: string): Promise<Answer> {
	const answer = fetch(address, { credentials: "same-origin", headers: { Accept: "application/json" } })
		.then(async (response) => ({ response, body: await response.arrayBuffer() }));
	const key = keyOf(address);
	const age = () => void setTimeout(() => answers.delete(key), FRESH_MS);

	answer.then(age, age); // who takes it is told of a failure
	answers.set(key, answer);
	return answer;
}

/** Of an address of a run's overview in a window so wide: the run, and its loss. */
export function preloadPage(answers: Answers, hash: string, page: number): { run: Promise<Answer>; loss: Promise<Answer> } | null {
	const [, id, query = ""] = /^#\/run\/([\w.-]+)(?:\/overview)?\/?(?:\?(.*))?$/.exec(hash) ?? [];
	const q = new URLSearchParams(query);

	if (!id || id === "last") {
		preload(answers, "api/v1/info");
		return null;
	}
	const run = preload(answers, `api/v1/runs/${id}`);

	if (q.has("zoom")) return null;
	const axis = ["step", "relative"].find((a) => a === q.get("axis")) ?? "time";
	const ask = new URLSearchParams();

	for (const name of LOSSES) ask.append("series", name);
	ask.append("points", String(pointsFor(chartWidth(page))));
	ask.append("axis", axis);
	ask.append("group", "none");
	ask.append("optional", "1");
	ask.append("format", "binary");
	return { run, loss: preload(answers, `api/v1/runs/${id}/query?${ask}`) };
}
