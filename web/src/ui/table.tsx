// SPDX-License-Identifier: Apache-2.0
//
// A table: sortable columns, of many rows drawn only where they are seen (thousands are no matter),
// keyboard, selection by the caller.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

export interface Column<T> {
	id: string;
	title: ComponentChildren;
	/** Of a cell. */
	cell: (row: T, index: number) => ComponentChildren;
	/** What to sort by; without it the column is not sortable. (Of rows that the server sorts it
	 * is not called.) */
	sort?: (row: T) => number | string | null;
	/** Right-aligned figures. */
	num?: boolean;
	/** CSS width: "8rem", "1fr", "minmax(10rem, 2fr)". */
	width?: string;
	/** Left out on narrow screens: 1 first, then 2. */
	optional?: 1 | 2;
	help?: string;
}

export interface TableProps<T> {
	label: string;
	columns: readonly Column<T>[];
	rows: readonly T[];
	id: (row: T) => string;
	/** "-name": descending. null: rows stay as they are. */
	sort?: string | null;
	/** Without it the table keeps the sort itself. */
	onSort?: (sort: string) => void;
	/** The rows are sorted already (by the server). */
	sorted?: boolean;
	rowHeight?: number;
	/** px; the table scrolls in itself beyond it; 0: it is as long as its rows. */
	height?: number;
	onOpen?: (row: T) => void;
	rowClass?: (row: T) => string;
	empty?: ComponentChildren;
	/** Called with the last row that is seen: more can be asked for. */
	onSeen?: (last: number) => void;
}

function compare(a: number | string | null, b: number | string | null): number {
	const none = (v: number | string | null) => v === null || (typeof v === "number" && Number.isNaN(v));

	if (none(a) || none(b)) return none(a) ? (none(b) ? 0 : 1) : -1;
	if (typeof a === "number" && typeof b === "number") return a - b;
	return String(a).localeCompare(String(b), undefined, { numeric: true });
}

export function sortRows<T>(rows: readonly T[], by: ((row: T) => number | string | null) | undefined, down: boolean): readonly T[] {
	if (!by) return rows;
	const keyed = rows.map((row, i) => ({ row, key: by(row), i }));
	const none = (v: number | string | null) => v === null || (typeof v === "number" && Number.isNaN(v));

	keyed.sort((p, q) => {
		const c = compare(p.key, q.key);

		// What is unknown stays last, whichever way the others stand.
		return (down && !none(p.key) && !none(q.key) ? -c : c) || p.i - q.i;
	});
	return keyed.map((k) => k.row);
}

/** How many kinds of optional columns have no room in this window: 0 to 2. */
function useNarrow(): number {
	const now = () => (window.innerWidth <= 700 ? 2 : window.innerWidth <= 1000 ? 1 : 0);
	const [narrow, set] = useState(now);

	useEffect(() => {
		const f = () => set(now());

		window.addEventListener("resize", f);
		return () => window.removeEventListener("resize", f);
	}, []);
	return narrow;
}

export function Table<T>(props: TableProps<T>) {
	const { rows, rowHeight = 32, height = 0 } = props;
	const narrow = useNarrow();
	const columns = useMemo(() => props.columns.filter((c) => !c.optional || c.optional > narrow), [props.columns, narrow]);
	const [own, setOwn] = useState<string | null>(props.sort ?? null);
	const sort = props.onSort ? (props.sort ?? null) : own;
	const key = sort?.replace(/^-/, "") ?? "";
	const down = !!sort?.startsWith("-");
	const root = useRef<HTMLDivElement>(null);
	const [view, setView] = useState({ from: 0, to: 40 });
	const [at, setAt] = useState(-1);
	const shown = useMemo(
		() => (props.sorted ? rows : sortRows(rows, columns.find((c) => c.id === key)?.sort, down)),
		[rows, key, down, props.sorted, columns],
	);

	useLayoutEffect(() => {
		const el = root.current as HTMLDivElement;
		const target: HTMLElement | Window = height > 0 ? el : window;
		const measure = () => {
			const top = height > 0 ? el.scrollTop : Math.max(0, -el.getBoundingClientRect().top);
			const seen = height > 0 ? el.clientHeight : window.innerHeight;
			const from = Math.max(0, Math.floor(top / rowHeight) - 8);
			const to = Math.ceil((top + seen) / rowHeight) + 8;

			setView((v) => (v.from === from && v.to === to ? v : { from, to }));
		};

		measure();
		target.addEventListener("scroll", measure, { passive: true });
		window.addEventListener("resize", measure);
		return () => {
			target.removeEventListener("scroll", measure);
			window.removeEventListener("resize", measure);
		};
	}, [height, rowHeight, rows.length]);
	useEffect(() => props.onSeen?.(Math.min(view.to, shown.length) - 1), [view.to, shown.length]);

	const setSort = (c: Column<T>) => {
		const next = key === c.id ? (down ? c.id : "-" + c.id) : c.num ? "-" + c.id : c.id;

		if (props.onSort) props.onSort(next);
		else setOwn(next);
	};
	const keys = (e: KeyboardEvent) => {
		const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, j: 1, k: -1 }[e.key];

		if ((e.target as HTMLElement).closest("input, button, a") && e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
		if (step !== undefined && shown.length > 0) {
			const to = Math.max(0, Math.min(shown.length - 1, at + step));

			setAt(to);
			// The row itself may not be drawn yet.
			const el = root.current as HTMLDivElement;
			const own = height > 0;
			const top = (el.lastElementChild as HTMLElement).getBoundingClientRect().top + to * rowHeight - (own ? el.getBoundingClientRect().top : 0);
			const over = top + rowHeight - (own ? el.clientHeight : innerHeight);

			(own ? el : window).scrollBy(0, over > 0 ? over : Math.min(0, top - rowHeight));
			e.preventDefault();
			e.stopPropagation();
		} else if (e.key === "Enter" && shown[at] !== undefined) props.onOpen?.(shown[at]);
	};
	// Few are all there: the browser's search and pictures of the whole page find them.
	const few = shown.length <= 64;
	const from = few ? 0 : Math.min(view.from, shown.length - 1);
	const to = few ? shown.length : Math.min(shown.length, view.to);

	return (
		<div
			class="table" role="table" aria-label={props.label} aria-rowcount={shown.length + 1} aria-colcount={columns.length} tabIndex={0} ref={root} onKeyDown={keys}
			style={{ "--columns": columns.map((c) => c.width ?? "minmax(4rem, 1fr)").join(" "), "--row": `${rowHeight}px`, ...(height > 0 ? { maxHeight: `${height}px` } : {}) }}
			data-scroll={height > 0 ? "1" : undefined}
		>
			<div class="tr head" role="row" aria-rowindex={1}>
				{columns.map((c) => (
					<div
						key={c.id} role="columnheader" class={c.num ? "num" : undefined} title={c.help}
						aria-sort={key === c.id ? (down ? "descending" : "ascending") : undefined}
					>
						{c.sort ? (
							<button type="button" onClick={() => setSort(c)}>{c.title}<span class="arrow">{key === c.id ? (down ? "↓" : "↑") : ""}</span></button>
						) : c.title}
					</div>
				))}
			</div>
			<div class="tbody" role="rowgroup" style={{ height: `${shown.length * rowHeight}px` }}>
				<div role="presentation" style={{ transform: `translateY(${from * rowHeight}px)` }}>
					{shown.slice(from, to).map((row, i) => (
						<div
							key={props.id(row)} role="row" aria-rowindex={from + i + 2} data-row={from + i}
							class={`tr ${from + i === at ? "at" : ""} ${props.rowClass?.(row) ?? ""} ${props.onOpen ? "opens" : ""}`}
							onClick={(e) => {
								if (!(e.target as HTMLElement).closest("a, button, input, label")) props.onOpen?.(row);
							}}
						>
							{columns.map((c) => (
								<div key={c.id} role="cell" class={c.num ? "num" : undefined}>{c.cell(row, from + i)}</div>
							))}
						</div>
					))}
				</div>
			</div>
			{shown.length === 0 && props.empty}
		</div>
	);
}
