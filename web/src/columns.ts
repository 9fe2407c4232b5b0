// SPDX-License-Identifier: Apache-2.0
//
// The binary answer of a query (application/vnd.lapse.columns, docs/http.md): heads in
// JSON, columns as views of the answer, nothing copied.

export interface QueryHead {
	run: string;
	axis: string;
	/** Where `relative` begins, ms since 1970. */
	start: number;
	grid: { x0: number; width: number; n: number } | null;
	unmatched: string[];
}

export interface QuerySeries {
	id: string;
	name: string;
	labels: string;
	label: Record<string, string>;
	unit: string;
	kind: string;
	host: string;
	process: number;
	pid: number;
	role: string;
	rank: number | null;
	rate: boolean;
	raw: boolean;
	lost: number;
	columns: string[];
	/** By name of column: x and y if raw; else x, min, mean, max, last, count, nan … */
	col: Record<string, Float64Array>;
	/** Of a group only. */
	group?: string;
}

/** A series that a group is made of. */
export type QueryMember = Omit<QuerySeries, "col" | "columns" | "group"> & {
	/** Index of its group. */
	in: number;
};

export interface QueryAnswer {
	head: QueryHead;
	series: QuerySeries[];
	groups: QuerySeries[];
	/** With groups: the series that they are made of, without columns. */
	members: QueryMember[];
}

const LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

function floats(buffer: ArrayBuffer, at: number, n: number): Float64Array {
	if (LITTLE) return new Float64Array(buffer, at, n);
	const view = new DataView(buffer);

	return Float64Array.from({ length: n }, (_, i) => view.getFloat64(at + 8 * i, true));
}

export function decodeColumns(buffer: ArrayBuffer): QueryAnswer {
	const view = new DataView(buffer);
	const text = new TextDecoder();
	const cut = () => new Error("the answer of a query is cut off or not what this page knows; reload the page");
	const out: QueryAnswer = { head: {} as QueryHead, series: [], groups: [], members: [] };
	let at = 8;

	if (buffer.byteLength < 8 || text.decode(new Uint8Array(buffer, 0, 4)) !== "LPC1") throw cut();
	const parts = view.getUint32(4, true);

	for (let part = 0; part < parts; part++) {
		if (at + 8 > buffer.byteLength) throw cut();
		const size = view.getUint32(at, true);

		if (at + 16 + size > buffer.byteLength) throw cut();
		const head = JSON.parse(text.decode(new Uint8Array(buffer, at + 8, size))) as QuerySeries & QueryHead & { members?: (QueryMember & { group: number })[] };
		at += 8 + size;
		const n = view.getUint32(at, true);
		const columns = view.getUint32(at + 4, true);

		at += 8;
		if (at + 8 * n * columns > buffer.byteLength) throw cut();
		if (part === 0) {
			out.head = head;
			out.members = (head.members ?? []).map((m) => ({ ...m, in: m.group }));
			continue;
		}
		head.col = {};
		for (let c = 0; c < columns; c++) {
			head.col[head.columns[c] ?? `column ${c}`] = floats(buffer, at, n);
			at += 8 * n;
		}
		(head.group === undefined ? out.series : out.groups).push(head);
	}
	return out;
}
