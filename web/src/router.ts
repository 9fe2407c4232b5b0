// SPDX-License-Identifier: Apache-2.0
//
// Where we are: everything that a view shows is in the address behind "#", so that a link
// reproduces it. "#/run/ID/training?axis=step&smooth=0.6". A state that has its default is
// not in the address.
import { useEffect, useMemo, useState } from "preact/hooks";

export interface Place {
	/** Decoded parts of the path: ["run", "ID", "training"]. */
	path: string[];
	query: URLSearchParams;
}

export function parseHash(hash: string): Place {
	const text = hash.replace(/^#?\/?/, "");
	const at = text.indexOf("?");
	const path = at < 0 ? text : text.slice(0, at);
	const decode = (part: string) => {
		try {
			return decodeURIComponent(part);
		} catch {
			return part;
		}
	};

	return {
		path: path.split("/").filter((p) => p !== "").map(decode),
		query: new URLSearchParams(at < 0 ? "" : text.slice(at + 1)),
	};
}

type Query = URLSearchParams | Record<string, string | number | string[] | null | undefined>;

function toSearch(query?: Query): URLSearchParams {
	if (query instanceof URLSearchParams) return query;
	const out = new URLSearchParams();

	for (const [key, v] of Object.entries(query ?? {})) {
		if (v == null || v === "") continue;
		for (const one of Array.isArray(v) ? v : [v]) out.append(key, String(one));
	}
	return out;
}

/** The href of a place: href(["run", id, "training"], { axis: "step" }). */
export function href(path: readonly string[], query?: Query): string {
	// A few marks stay readable in addresses: they mean nothing behind "?".
	const search = toSearch(query).toString().replace(/%2F/g, "/").replace(/%2C/g, ",").replace(/%3A/g, ":");

	return "#/" + path.map(encodeURIComponent).join("/") + (search ? "?" + search : "");
}

let place: Place = parseHash(typeof location === "undefined" ? "" : location.hash);
const listeners = new Set<() => void>();

function announce(): void {
	place = parseHash(location.hash);
	for (const f of [...listeners]) f();
}

if (typeof window !== "undefined") window.addEventListener("hashchange", announce);

/** Go there; replace: the back button does not come here again (zooming, typing). */
export function go(path: readonly string[], query?: Query, replace = false): void {
	const to = href(path, query);

	if (to === location.hash) return;
	if (replace) {
		history.replaceState(null, "", to);
		announce();
	} else {
		location.hash = to;
	}
}

export function here(): Place {
	return place;
}

/** The place, and again whenever it changes. */
export function usePlace(): Place {
	const [now, set] = useState(place);

	useEffect(() => {
		const f = () => set(place);

		listeners.add(f);
		f();
		return () => void listeners.delete(f);
	}, []);
	return now;
}

/** Change parts of the state in the address; null or "" takes one away. */
export function setQuery(change: Record<string, string | number | string[] | null | undefined>, replace = true): void {
	const query = new URLSearchParams(place.query);

	for (const [key, v] of Object.entries(change)) {
		query.delete(key);
		if (v == null || v === "") continue;
		for (const one of Array.isArray(v) ? v : [v]) query.append(key, String(one));
	}
	go(place.path, query, replace);
}

/** One state in the address, as text; its default is not written. */
export function useParam(name: string, missing = ""): [string, (v: string | null) => void] {
	const { query } = usePlace();

	return [query.get(name) ?? missing, (v) => setQuery({ [name]: v === missing ? null : v })];
}

/** A flag in the address ("1"; "0" only where its default is true). */
export function useFlag(name: string, missing = false): [boolean, (v: boolean) => void] {
	const [text, set] = useParam(name, missing ? "1" : "");

	return [text === "1", (v) => set(v ? "1" : missing ? "0" : "")];
}

/** A number in the address; text that is none, or out of the range, is its default. */
export function useNumber(name: string, missing: number, lo = -Infinity, hi = Infinity): [number, (v: number) => void] {
	const [text, set] = useParam(name, String(missing));
	const v = Number(text);

	return [text !== "" && Number.isFinite(v) && v >= lo && v <= hi ? v : missing, (n) => set(String(n))];
}

/** A list in the address (the parameter repeated). */
export function useList(name: string): [string[], (v: string[]) => void] {
	const { query } = usePlace();
	const key = query.getAll(name).join("\n");
	const list = useMemo(() => query.getAll(name), [key]);

	return [list, (v) => setQuery({ [name]: v })];
}
