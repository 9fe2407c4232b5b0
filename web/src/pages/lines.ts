// SPDX-License-Identifier: Apache-2.0
//
// lines.ts - what my pages share: many series asked in one question, by what was asked; the view
// of a page that knows one kind of axis; what is near the screen.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ApiError } from "../api";
import type { Line } from "../chart/math";
import { liveLines, useQuery } from "../chart/series";
import { type View, useView } from "../chart/view";
import { setQuery } from "../router";

export const MOST = 128; // series in a question (docs/http.md)
const EARLIEST = 1e11; // ms; smaller ones are steps or times since the start

/** The view of a page that knows one kind of axis only: what is zoomed to by another (on the tab
 * where the viewer came from) is left alone until zooming here. */
export function useOwnView(own: "time" | "step"): View {
	const view = useView(own);

	return useMemo(() => {
		const fits = own === "step" ? view.axis === "step" : view.axis !== "step";
		const axis = fits ? view.axis : own;
		const zoomed = view.range && (axis === "time") === view.range[0] >= EARLIEST ? view.range : null;

		return {
			...view, axis, range: fits ? zoomed : null,
			setRange: (r) => (fits ? view.setRange(r) : setQuery({ axis: own, zoom: r ? r.join() : null })),
		};
	}, [view, own]);
}

export interface Lines {
	/** By what was asked: HOST/NUMBER or rate(HOST/NUMBER). */
	of: ReadonlyMap<string, Line>;
	loading: boolean;
	error: ApiError | null;
	retry: () => void;
}

/** These series as lines that grow, at most MOST; null: do not ask yet. */
export function useLines(
	run: string, ids: readonly string[] | null, axis: "time" | "relative", range: [number, number] | null, live: boolean, points: number,
): Lines {
	const key = ids?.slice(0, MOST).join(" ") ?? "";
	const ask = useMemo(
		() => (key ? { id: key.split(" "), axis, points, from: range?.[0], to: range?.[1] } : null),
		[key, axis, range?.[0], range?.[1], points],
	);
	const q = useQuery(run, ask, live);
	const of = useMemo(() => {
		const lines = liveLines(q, { axis });

		return new Map(q.data?.series.map((s, i) => [s.rate ? `rate(${s.id})` : s.id, lines[i]!]));
	}, [q.data, q.turn, axis]);

	return { of, loading: q.loading, error: q.error, retry: q.reload };
}

/** The newest value that is one, or null. */
export function last(line: Line | undefined): number | null {
	for (let i = (line?.y.length ?? 0) - 1; i >= 0; i--) if (Number.isFinite(line!.y[i])) return line!.y[i]!;
	return null;
}

/** Is the element near what is seen of the page? Once it was, it stays so. */
export function useSeen(): [preact.RefObject<HTMLElement>, boolean] {
	const ref = useRef<HTMLElement>(null);
	const [seen, set] = useState(false);

	useEffect(() => {
		const o = new IntersectionObserver((e) => {
			if (!e.some((x) => x.isIntersecting)) return;
			set(true);
			o.disconnect();
		}, { rootMargin: "400px" });

		if (ref.current) o.observe(ref.current);
		return () => o.disconnect();
	}, []);
	return [ref, seen];
}
