// SPDX-License-Identifier: Apache-2.0
//
// Numbers, units and times as people read them: the same words as the commands'
// (src/base/fmt.c). Pure functions; unknown (null, undefined) is an en dash.

export const UNKNOWN = "–";
const BYTES = [" B", " KiB", " MiB", " GiB", " TiB", " PiB"];
const COUNTS = ["", " k", " M", " G", " T"];
const SECONDS = [" ns", " µs", " ms", " s"];

export type Maybe = number | null | undefined;

function decimals(v: number): number {
	v = Math.abs(v);
	return v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
}

function scaled(v: number, base: number, units: readonly string[]): string {
	let i = 0;

	if (!Number.isFinite(v)) return String(v) + units[0];
	while (i + 1 < units.length && Math.abs(v) >= base * 0.9995) {
		v /= base;
		i++;
	}
	if (i === 0 && Number.isInteger(v)) return v + (units[0] as string);
	return v.toFixed(decimals(v)) + units[i];
}

/** "1.50 GiB", "12 B". */
export function bytes(v: Maybe): string {
	return v == null ? UNKNOWN : scaled(v, 1024, BYTES);
}

/** "62.5 / 80.0 GiB": both in the unit of the whole. */
export function bytesOf(used: Maybe, all: Maybe): string {
	if (used == null || all == null || !(all > 0)) return bytes(used);
	const [, unit] = bytes(all).split(" ");
	const by = 1024 ** Math.max(0, BYTES.indexOf(` ${unit}`));
	const show = (v: number) => v.toFixed(decimals(v));

	return `${show(used / by)} / ${show(all / by)} ${unit}`;
}

/** "12.3 k", "1.20 M". */
export function count(v: Maybe): string {
	return v == null ? UNKNOWN : scaled(v, 1000, COUNTS);
}

/** "350 ns", "12.3 ms", "2.50 s", "3 min 12 s", "2 h 05 min", "3 d 04 h". */
export function seconds(v: Maybe): string {
	if (v == null) return UNKNOWN;
	if (!(Math.abs(v) < 1e18)) return `${v} s`;
	if (Math.abs(v) < 60) return scaled(v * 1e9, 1000, SECONDS);
	const sign = v < 0 ? "-" : "";
	const whole = Math.round(Math.abs(v));
	const two = (n: number) => String(n).padStart(2, "0");

	if (whole < 3600) return `${sign}${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
	if (whole < 86400)
		return `${sign}${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
	return `${sign}${Math.floor(whole / 86400)} d ${two(Math.floor(whole / 3600) % 24)} h`;
}

/** A share as "93.1 %". */
export function percent(v: Maybe): string {
	if (v == null) return UNKNOWN;
	if (!Number.isFinite(v)) return String(v);
	const p = v * 100;

	return (Number.isInteger(p) ? String(p) : p.toFixed(Math.abs(p) < 99.95 ? 1 : 0)) + " %";
}

/** A bare number with at most `digits` significant ones: 0.01234, 1.5e-9, 12345678. */
export function number(v: Maybe, digits = 5): string {
	if (v == null) return UNKNOWN;
	if (!Number.isFinite(v)) return Number.isNaN(v) ? "NaN" : v > 0 ? "∞" : "−∞";
	if (Number.isInteger(v) && Math.abs(v) < 1e15) return group(v);
	const a = Math.abs(v);

	if (a !== 0 && (a < 1e-4 || a >= 1e7)) return v.toExponential(digits - 2).replace(/\.?0+e/, "e");
	const text = String(Number(v.toPrecision(digits)));

	return a < 1e4 ? text : text.replace(/\d+/, (whole) => group(Number(whole)));
}

/** A whole number with thin groups: 1,234,567. */
export function group(v: Maybe): string {
	// No Intl: making a formatter takes longer than all the rest of a page.
	return v == null ? UNKNOWN : !Number.isFinite(v) ? number(v) : Math.abs(v) < 1e21 ? v.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",") : String(v);
}

/** By the unit of a series (UCUM as in docs/metrics.md): By, s, ns, 1, W, Cel, Hz, By/s … A
 * metric of unit 1 is a share if its name says so (see `isShare`). */
export function value(v: Maybe, unit: string, share = false): string {
	if (v == null) return UNKNOWN;
	if (Number.isNaN(v)) return "NaN";
	switch (unit) {
	case "By": return bytes(v);
	case "By/s": return bytes(v) + "/s";
	case "s": return seconds(v);
	case "ns": return seconds(v / 1e9);
	case "ns/s": return number(v / 1e9, 4);
	case "ms": return seconds(v / 1e3);
	case "Hz": return scaled(v, 1000, [" Hz", " kHz", " MHz", " GHz"]);
	case "Cel": return v.toFixed(Number.isInteger(v) ? 0 : 1) + " °C";
	case "W": return scaled(v, 1000, [" W", " kW", " MW"]);
	case "J": return scaled(v, 1000, [" J", " kJ", " MJ", " GJ"]);
	case "%": return number(v, 4) + " %";
	case "1":
	case "": return share ? percent(v) : Math.abs(v) >= 1e5 ? count(v) : number(v);
	default: return (Math.abs(v) >= 1e5 ? count(v) : number(v)) + " " + unit.replace(/^1\//, "/");
	}
}

const SHARES = /^(cpu|gpu|disk|process|cgroup|ray|throughput)\/(.*\/)?(busy|user|system|irq|iowait|steal|guest|active|occupancy|throttled|fan|[mh]fu|reason)$|^(cgroup\/)?pressure\//;

/** Is it a metric of lapse's own that is a share of a whole (shown in %)? */
export function isShare(name: string, unit: string): boolean {
	return unit === "1" && SHARES.test(name.replace(/\{.*$/, ""));
}

/** The value and unit of an axis: what ticks are divided by, and the label. Ticks of one axis
 * share a unit, so that they compare. */
export function axisScale(top: number, unit: string, share: boolean): { by: number; label: string } {
	const step = (base: number, units: readonly string[]) => {
		let by = 1;
		let i = 0;

		while (i + 1 < units.length && Math.abs(top) / by >= base) {
			by *= base;
			i++;
		}
		return { by, label: (units[i] as string).trim() };
	};

	if (share) return { by: 0.01, label: "%" };
	switch (unit) {
	case "By": return step(1024, BYTES);
	case "By/s": {
		const s = step(1024, BYTES);
		return { by: s.by, label: s.label + "/s" };
	}
	case "ns": return timeScale(top, 1e9);
	case "s": return timeScale(top, 1);
	case "Hz": return step(1000, [" Hz", " kHz", " MHz", " GHz"]);
	case "W": return step(1000, [" W", " kW", " MW"]);
	case "J": return step(1000, [" J", " kJ", " MJ", " GJ"]);
	case "Cel": return { by: 1, label: "°C" };
	// Another unit stands in the chart's title: ticks have no room for it.
	default: return top >= 1e9 ? { by: 1e9, label: "G" } : top >= 1e6 ? { by: 1e6, label: "M" } : top >= 2e4 ? { by: 1e3, label: "k" } : { by: 1, label: "" };
	}
}

/** Is it a unit that ticks and values bring with them? */
export function isCommonUnit(unit: string): boolean {
	return /^(|1|By|By\/s|s|ns|ms|Hz|W|J|Cel|%)$/.test(unit);
}

function timeScale(top: number, perSecond: number): { by: number; label: string } {
	const s = Math.abs(top) / perSecond;

	if (s >= 7200) return { by: 3600 * perSecond, label: "h" };
	if (s >= 120) return { by: 60 * perSecond, label: "min" };
	if (s >= 1 || s === 0) return { by: perSecond, label: "s" };
	if (s >= 1e-3) return { by: 1e-3 * perSecond, label: "ms" };
	if (s >= 1e-6) return { by: 1e-6 * perSecond, label: "µs" };
	return { by: 1e-9 * perSecond, label: "ns" };
}

/** Has a name marks of patterns in it? Then its series are asked for by number. */
export function isPattern(name: string): boolean {
	return /[*?[\]{}"\\()]/.test(name);
}

// ---- times --------------------------------------------------------------------------

/** Milliseconds since 1970 of a time in JSON: `…_ns` as decimal string (or number), or RFC 3339. */
export function toMs(t: string | number | null | undefined): number | null {
	if (t == null || t === "") return null;
	if (typeof t === "number") return t / 1e6;
	if (/^-?\d+$/.test(t)) return t.length > 15 ? Number(t.slice(0, -3)) / 1e3 : Number(t) / 1e6;
	const ms = Date.parse(t);

	return Number.isNaN(ms) ? null : ms;
}

const pad = (n: number, w = 2) => String(n).padStart(w, "0");

/** "2026-11-28 02:02:03" in the viewer's zone. */
export function local(ms: Maybe, withMs = false): string {
	if (ms == null || !Number.isFinite(ms)) return UNKNOWN;
	const d = new Date(ms);

	return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(ms)}` +
		(withMs ? "." + pad(d.getMilliseconds(), 3) : "");
}

/** "02:02:03" in the viewer's zone. */
export function clock(ms: number): string {
	const d = new Date(ms);

	return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

/** "2026-11-28T01:02:03.456Z". */
export function utc(ms: Maybe): string {
	return ms == null || !Number.isFinite(ms) ? UNKNOWN : new Date(ms).toISOString();
}

/** "3 min ago", "in 2 h"; now is for tests. */
export function ago(ms: Maybe, now = Date.now()): string {
	if (ms == null || !Number.isFinite(ms)) return UNKNOWN;
	const s = Math.round((now - ms) / 1000);
	const a = Math.abs(s);
	const text = a < 5 ? "now" : a < 60 ? `${a} s` : a < 3600 ? `${Math.floor(a / 60)} min`
		: a < 86400 ? `${Math.floor(a / 3600)} h` : `${Math.floor(a / 86400)} d`;

	return text === "now" ? text : s < 0 ? `in ${text}` : `${text} ago`;
}

/** A long text shortened in its middle, by whole characters: names may be 10 kB. */
export function shorten(text: string, most = 80): string {
	if (text.length <= most) return text;
	const chars = Array.from(text.slice(0, most * 2));
	const head = Math.ceil((most - 1) * 0.7);
	const tail = Array.from(text.slice(-2 * most)).slice(-(most - 1 - head));

	return chars.slice(0, head).join("") + "…" + tail.join("");
}
