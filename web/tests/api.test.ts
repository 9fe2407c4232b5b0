// SPDX-License-Identifier: Apache-2.0
import { afterEach, expect, test, vi } from "vitest";
import { api } from "../src/api";

afterEach(() => vi.unstubAllGlobals());

/** A part of a binary answer: a head and no columns. */
function part(head: object): number[] {
	const text = JSON.stringify(head);
	const bytes = new TextEncoder().encode(text.padEnd(Math.ceil(text.length / 8) * 8));

	return [...new Uint8Array(Uint32Array.of(bytes.length, 0).buffer), ...bytes, ...new Array<number>(8).fill(0)];
}

test("very many series are asked for in several questions, and nobody is left out", async () => {
	const asked: number[] = [];

	vi.stubGlobal("fetch", (address: string) => {
		const ids = new URLSearchParams(address.split("?")[1]).getAll("id");
		const parts = [part({ run: "r", unmatched: [] }), ...ids.map((id) => part({ id, columns: [] }))];

		asked.push(ids.length);
		return Promise.resolve(new Response(Uint8Array.from([...new TextEncoder().encode("LPC1"), ...new Uint8Array(Uint32Array.of(parts.length).buffer), ...parts.flat()])));
	});
	const ids = Array.from({ length: 300 }, (_, i) => `h/${i}`);
	const answer = await api.query("r", { id: ids });

	expect(asked).toEqual([128, 128, 44]);
	expect(answer.series.map((s) => s.id)).toEqual(ids);
	await api.query("r", { series: ["loss"] });
	expect(asked).toEqual([128, 128, 44, 0]);
});
