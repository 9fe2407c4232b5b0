// SPDX-License-Identifier: Apache-2.0
//
// The tables of `lapse trace VIEW --json`, as they come: units by the ends of keys (docs/trace.md).
import { useMemo } from "preact/hooks";
import * as fmt from "../fmt";
import { Name } from "../ui/bits";
import { type Column, Table } from "../ui/table";

type Cell = string | number | boolean | null;
export type Row = Record<string, Cell>;

export interface TraceAnswer {
	command: string;
	files: { path: string; rank: number | null; error: string | null; notes: { kind: string; count: number; meaning: string }[] }[];
	inputs: { cuts: unknown[]; views?: { first_ns: number }[] };
	sheets: Record<string, Row[]>;
	notes: { key: string; text: string }[];
}

function show(key: string, v: Cell | undefined) {
	if (v == null) return <span class="muted">{fmt.UNKNOWN}</span>;
	if (typeof v === "boolean") return v ? "yes" : "no";
	if (typeof v === "string") return <Name text={v} most={200} />;
	if (key.endsWith("_ns")) return fmt.seconds(v / 1e9);
	if (key.endsWith("_us")) return fmt.seconds(v / 1e6);
	if (/(^|_)pct$/.test(key)) return fmt.percent(v / 100);
	if (/(^|_)bytes$/.test(key)) return fmt.bytes(v);
	return fmt.number(v);
}

const title = (key: string) => key.replace(/(^|_)(ns|us|pct|bytes)$/, (m) => (m.endsWith("pct") ? " %" : "")).replace(/_/g, " ") || key;

function Sheet({ name, rows, files }: { name: string; rows: Row[]; files: number }) {
	const columns = useMemo<Column<Row>[]>(() => {
		const keys = Object.keys(rows[0] ?? {}).filter((k) => (files > 1 || (k !== "file" && k !== "rank")) && rows.some((r) => r[k] != null));
		const texts = keys.filter((k) => rows.some((r) => typeof r[k] === "string"));

		// What it is about first, then its figures.
		return [...texts, ...keys.filter((k) => !texts.includes(k))].map((k) => ({
			id: k, title: title(k), num: !texts.includes(k), sort: (r: Row) => (typeof r[k] === "boolean" ? Number(r[k]) : (r[k] as string | number | null)),
			width: /^(name|text|advice|sequence)$/.test(k) ? "minmax(16rem, 3fr)" : texts.includes(k) ? "minmax(7rem, 1fr)" : "minmax(6rem, 1fr)",
			cell: (r: Row) => show(k, r[k]),
		}));
	}, [rows, files]);

	return (
		<section>
			<h2>{title(name).replace(/^./, (c) => c.toUpperCase())} <span class="muted">{fmt.group(rows.length)}</span></h2>
			<Table label={name} columns={columns} rows={rows} id={(r) => String(rows.indexOf(r))} rowHeight={26} height={420} />
		</section>
	);
}

export function Sheets({ answer, only, but }: { answer: TraceAnswer; only?: string[]; but?: string[] }) {
	const names = (only ?? Object.keys(answer.sheets)).filter((n) => !but?.includes(n) && (answer.sheets[n]?.length ?? 0) > 0);

	return (
		<>
			{names.map((n) => <Sheet key={n} name={n} rows={answer.sheets[n] as Row[]} files={answer.files.length} />)}
			{answer.notes.map((n, i) => <p key={i} class="muted">{n.text}</p>)}
		</>
	);
}
