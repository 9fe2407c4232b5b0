// SPDX-License-Identifier: Apache-2.0
//
// Choose from up to many thousands: type to find (every word must occur), arrows, Enter. The
// list draws only what is seen.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { shorten } from "../fmt";

export interface Option {
	value: string;
	label: string;
	/** At the right: unit, count. */
	hint?: string;
}

const ROW = 28;
const ROWS = 11;

/** Those in which every word of q occurs, in any case; those that begin with q first. */
export function findOptions<T extends Option>(options: readonly T[], q: string): readonly T[] {
	const words = q.toLowerCase().split(/\s+/).filter(Boolean);

	if (words.length === 0) return options;
	const found = options.filter((o) => {
		const text = `${o.label} ${o.hint ?? ""}`.toLowerCase();

		return words.every((w) => text.includes(w));
	});
	const starts = (o: T) => (o.label.toLowerCase().startsWith(words[0] as string) ? 0 : 1);

	return [...found].sort((a, b) => starts(a) - starts(b));
}

interface Props {
	label: string;
	options: readonly Option[];
	/** Chosen ones. With `many` several, else at most one. */
	value: readonly string[];
	set: (value: string[]) => void;
	many?: boolean;
	placeholder?: string;
	/** It was opened: options can be fetched now. */
	onOpen?: () => void;
	children?: ComponentChildren;
}

export function Combobox({ label, options, value, set, many = false, placeholder = "type to find", onOpen, children }: Props) {
	const [open, setOpen] = useState(false);
	const [q, setQ] = useState("");
	const [at, setAt] = useState(0);
	const [top, setTop] = useState(0);
	const root = useRef<HTMLDivElement>(null);
	const list = useRef<HTMLDivElement>(null);
	const found = useMemo(() => (open ? findOptions(options, q) : []), [options, q, open]);
	const chosen = useMemo(() => new Set(value), [value]);

	useEffect(() => {
		if (!open) return;
		onOpen?.();
		const away = (e: Event) => {
			if (!root.current?.contains(e.target as Node)) setOpen(false);
		};

		document.addEventListener("pointerdown", away);
		root.current?.querySelector("input")?.focus();
		return () => document.removeEventListener("pointerdown", away);
	}, [open]);
	useEffect(() => {
		setAt(0);
		setTop(0);
		if (list.current) list.current.scrollTop = 0;
	}, [q]);

	const pick = (o: Option | undefined) => {
		if (!o) return;
		if (!many) {
			set([o.value]);
			setOpen(false);
		} else set(chosen.has(o.value) ? value.filter((v) => v !== o.value) : [...value, o.value]);
	};
	const keys = (e: KeyboardEvent) => {
		const step = { ArrowDown: 1, ArrowUp: -1, PageDown: ROWS, PageUp: -ROWS }[e.key];

		if (step !== undefined) {
			const to = Math.max(0, Math.min(found.length - 1, at + step));
			const el = list.current;

			setAt(to);
			if (el && to * ROW < el.scrollTop) el.scrollTop = to * ROW;
			if (el && (to + 1) * ROW > el.scrollTop + el.clientHeight) el.scrollTop = (to + 1) * ROW - el.clientHeight;
		} else if (e.key === "Enter") pick(found[at]);
		else if (e.key === "Escape") {
			setOpen(false);
			root.current?.querySelector("button")?.focus();
		} else return;
		e.preventDefault();
		e.stopPropagation();
	};
	const from = Math.max(0, Math.floor(top / ROW) - 4);
	const id = `list-${label.replace(/\W+/g, "-")}`;

	return (
		<div class="combobox" ref={root}>
			<button type="button" class="button" aria-haspopup="listbox" aria-expanded={open} onClick={() => setOpen(!open)}>
				{children ?? label}<span class="arrow">▾</span>
			</button>
			{open && (
				<div class="combo-pop" onKeyDown={keys}>
					<input
						type="search" role="combobox" aria-label={label} aria-expanded="true" aria-controls={id} aria-activedescendant={`${id}-${at}`}
						placeholder={placeholder} value={q} onInput={(e) => setQ(e.currentTarget.value)} autocomplete="off" spellcheck={false}
					/>
					<div class="combo-list" role="listbox" id={id} aria-label={label} aria-multiselectable={many} ref={list} onScroll={(e) => setTop(e.currentTarget.scrollTop)} style={{ height: `${Math.max(1, Math.min(ROWS, found.length)) * ROW}px` }}>
						<div role="presentation" style={{ height: `${found.length * ROW}px` }}>
							<div role="presentation" style={{ transform: `translateY(${from * ROW}px)` }}>
								{found.slice(from, from + ROWS + 8).map((o, i) => (
									<div
										key={o.value} id={`${id}-${from + i}`} role="option" aria-selected={chosen.has(o.value)} class={"option" + (from + i === at ? " at" : "")}
										onMouseDown={(e) => e.preventDefault()} onClick={() => pick(o)} title={o.label.length > 60 ? shorten(o.label, 300) : undefined}
									>
										<span class="check">{chosen.has(o.value) ? "✓" : ""}</span>
										<bdi>{shorten(o.label, 60)}</bdi>
										<span class="spring" />
										<span class="muted">{o.hint}</span>
									</div>
								))}
							</div>
						</div>
						{found.length === 0 && <div class="option muted">nothing fits “{shorten(q, 30)}”</div>}
					</div>
					<div class="combo-foot muted">{found.length} of {options.length}{many ? ` · ${value.length} chosen` : ""}</div>
				</div>
			)}
		</div>
	);
}
