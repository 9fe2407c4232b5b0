// SPDX-License-Identifier: Apache-2.0
//
// cursor.ts - the cursor that a group of charts shares, for what is no uPlot: it hears where
// the charts have it, and tells them.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";

interface Source {
	cursor: { sync: { values: (number | null)[] } };
}

type Plots = { sub(p: unknown): void; unsub(p: unknown): void; pub(type: string, from: unknown, x: number, y: number, w: number, h: number, i: number): void };

/** Where on the x axis the group's cursor is (null: nowhere), and how to move it. */
export function useCursor(group: string): [number | null, (x: number | null) => void] {
	const [at, set] = useState<number | null>(null);
	const me = useRef({
		// As much of a uPlot as its sync reads of the chart that the cursor is on.
		axes: [{ side: 2 }],
		cursor: { event: null as unknown, sync: { values: [null, null] as (number | null)[], scales: ["x", null] } },
		pub(type: string, from: Source, x: number): void {
			if (type === "mousemove") set(x < 0 ? null : from.cursor.sync.values[0] ?? null);
			else if (type === "mouseleave") set(null);
		},
	});

	useEffect(() => {
		const of = uPlot.sync(group) as unknown as Plots;

		of.sub(me.current);
		return () => of.unsub(me.current);
	}, [group]);
	const move = useCallback((x: number | null) => {
		me.current.cursor.sync.values = [x, null];
		me.current.cursor.event = { type: "mousemove" };
		(uPlot.sync(group) as unknown as Plots).pub("mousemove", me.current, x === null ? -10 : 1, x === null ? -10 : 1, 2, 2, 0);
	}, [group]);

	return [at, move];
}
