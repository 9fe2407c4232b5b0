// SPDX-License-Identifier: Apache-2.0
//
// lines.ts - many series asked in one question, by what was asked.
import { useMemo } from "preact/hooks";
import type { ApiError } from "../api";
import { finiteLast, type Line } from "../chart/math";
import { liveLines, useQuery } from "../chart/series";

export interface Lines {
	/** By what was asked: HOST/NUMBER or rate(HOST/NUMBER). */
	of: ReadonlyMap<string, Line>;
	loading: boolean;
	error: ApiError | null;
	retry: () => void;
}

/** These series as lines that grow; null: do not ask yet. */
export function useLines(
	run: string, ids: readonly string[] | null, axis: "time" | "relative", range: [number, number] | null, live: boolean, points: number,
): Lines {
	const key = ids?.join(" ") ?? "";
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

/** The newest value that is one (hi: the greatest of the newest bucket), or null. */
export function last(line: Line | undefined, which?: "hi"): number | null {
	const v = (which ? undefined : line?.last) ?? finiteLast(line?.[which ?? "y"] ?? line?.y ?? []);

	return Number.isNaN(v) ? null : v;
}
