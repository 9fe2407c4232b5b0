// SPDX-License-Identifier: Apache-2.0
//
// How the charts of a page are looked at; all of it is in the address. One view is shared by
// all charts of a page, so that zooming one zooms all.
import { useMemo } from "preact/hooks";
import type { Axis } from "../api";
import { setQuery, usePlace } from "../router";

export interface View {
	axis: Axis;
	/** What is zoomed to, in the unit of the axis (ms or steps); null: all. */
	range: [number, number] | null;
	/** Weight of the moving average, 0 to 0.999. */
	smooth: number;
	/** The band from the smallest to the greatest. */
	band: boolean;
	log(chart: string): boolean;
	clip(chart: string): boolean;
	setAxis(axis: Axis): void;
	setRange(range: [number, number] | null): void;
	setSmooth(weight: number): void;
	setBand(on: boolean): void;
	/** chart "*": all. */
	setLog(chart: string, on: boolean): void;
	setClip(chart: string, on: boolean): void;
}

function flags(all: readonly string[], chart: string, usual: readonly string[] = []): boolean {
	return all.includes("*") || usual.includes(chart) ? !all.includes("-" + chart) : all.includes(chart);
}

function changed(all: readonly string[], chart: string, on: boolean, usual: readonly string[] = []): string[] {
	if (chart === "*") return on ? ["*"] : [];
	const rest = all.filter((c) => c !== chart && c !== "-" + chart);

	if (all.includes("*") || usual.includes(chart)) return on ? rest : [...rest, "-" + chart];
	return on ? [...rest, chart] : rest;
}

export function parseRange(text: string | null): [number, number] | null {
	const [a, b] = (text ?? "").split(",").map(Number);

	return a !== undefined && b !== undefined && Number.isFinite(a) && Number.isFinite(b) && a < b ? [a, b] : null;
}

const NONE: readonly string[] = [];

/** The view in the address; `axis`: the usual axis of the page; `clipped`: charts (a constant
 * list) that leave outliers out unless told otherwise. */
export function useView(axis: Axis = "time", clipped: readonly string[] = NONE): View {
	const { query } = usePlace();
	const key = query.toString();

	return useMemo(() => {
		const chosen = query.get("axis");
		const weight = Number(query.get("smooth") ?? 0);
		const logs = query.getAll("log");
		const clips = query.getAll("clip");
		const digits = (v: number) => String(Number(v.toPrecision(15)));

		return {
			axis: chosen === "step" || chosen === "time" || chosen === "relative" ? chosen : axis,
			range: parseRange(query.get("zoom")),
			smooth: weight > 0 && weight < 1 ? weight : 0,
			band: query.get("band") !== "0",
			log: (chart) => flags(logs, chart),
			clip: (chart) => flags(clips, chart, clipped),
			setAxis: (a) => setQuery({ axis: a === axis ? null : a, zoom: null }),
			setRange: (r) => setQuery({ zoom: r ? `${digits(r[0])},${digits(r[1])}` : null }),
			setSmooth: (w) => setQuery({ smooth: w > 0 ? Number(w.toFixed(3)) : null }),
			setBand: (on) => setQuery({ band: on ? null : "0" }),
			setLog: (c, on) => setQuery({ log: changed(logs, c, on) }),
			setClip: (c, on) => setQuery({ clip: changed(clips, c, on, clipped) }),
		};
	}, [key, axis]);
}

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
