// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { decodeColumns } from "../src/columns";

/** An answer as docs/http.md says it. */
function answer(parts: { head: object; columns: number[][] }[]): ArrayBuffer {
	const bytes: number[] = [];
	const u32 = (v: number) => bytes.push(v & 255, (v >> 8) & 255, (v >> 16) & 255, v >>> 24);

	bytes.push(...new TextEncoder().encode("LPC1"));
	u32(parts.length);
	for (const p of parts) {
		let head = JSON.stringify(p.head);

		while (new TextEncoder().encode(head).length % 8) head += " ";
		u32(new TextEncoder().encode(head).length);
		u32(0);
		bytes.push(...new TextEncoder().encode(head));
		u32(p.columns[0]?.length ?? 0);
		u32(p.columns.length);
		for (const c of p.columns) bytes.push(...new Uint8Array(Float64Array.from(c).buffer));
	}
	return Uint8Array.from(bytes).buffer;
}

const head = { run: "r", axis: "step", start: 5, grid: null, unmatched: ["x"] };

test("series and their columns", () => {
	const a = decodeColumns(answer([
		{ head, columns: [] },
		{ head: { id: "h/1", name: "loß", columns: ["x", "y"], raw: true }, columns: [[1, 2], [0.5, NaN]] },
		{ head: { group: "g", name: "loss", columns: ["x", "min"] }, columns: [[1], [2]] },
	]));

	expect(a.head.unmatched).toEqual(["x"]);
	expect(a.series).toHaveLength(1);
	expect(a.series[0]?.name).toBe("loß");
	expect([...(a.series[0]?.col.y ?? [])]).toEqual([0.5, NaN]);
	expect(a.groups[0]?.col.min?.[0]).toBe(2);
});

test("a cut answer is an error, never garbage", () => {
	const whole = answer([{ head, columns: [] }, { head: { id: "h/1", columns: ["x"] }, columns: [[1, 2, 3]] }]);

	for (let n = 0; n < whole.byteLength; n++) expect(() => decodeColumns(whole.slice(0, n))).toThrow();
	expect(() => decodeColumns(new TextEncoder().encode("<html>........").buffer as ArrayBuffer)).toThrow();
	expect(decodeColumns(whole).series).toHaveLength(1);
});
