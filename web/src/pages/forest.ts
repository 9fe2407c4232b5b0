// SPDX-License-Identifier: Apache-2.0
//
// forest.ts - the scale of a forest plot (intervals of differences beside each other) and what
// differs between runs' settings, as pure functions.

export interface Interval {
	at: number;
	lo: number;
	hi: number;
}

export interface ForestScale {
	lo: number;
	hi: number;
	ticks: number[];
}

/**
 * One scale for all intervals, relative differences (0.1 is 10 %), symmetric about 0 so that
 * better and worse are judged alike. One far interval does not squeeze the rest: the scale ends at
 * four times the median reach; what is beyond is drawn as an arrow.
 */
export function forestScale(all: readonly Interval[]): ForestScale {
	const reach = all
		.flatMap((i) => [Math.abs(i.lo), Math.abs(i.hi)])
		.filter((v) => Number.isFinite(v))
		.sort((a, b) => a - b);
	const most = reach.length ? reach[reach.length - 1]! : 0;
	const mid = reach.length ? reach[reach.length >> 1]! : 0;
	const want = Math.max(0.01, Math.min(most, Math.max(mid * 4, 0.05)));
	const step = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 50, 100]
		.find((s) => want / s <= 2) ?? want / 2;
	const n = Math.max(1, Math.ceil(want / step - 1e-9));
	const ticks = Array.from({ length: 2 * n + 1 }, (_, k) => (k - n) * step);
	return { lo: -n * step, hi: n * step, ticks };
}

/** Where v lies on the scale, 0 to 1, and whether it is beyond an end. */
export function place(s: ForestScale, v: number): { x: number; beyond: -1 | 0 | 1 } {
	const x = (v - s.lo) / (s.hi - s.lo);
	if (x < 0) return { x: 0, beyond: -1 };
	if (x > 1) return { x: 1, beyond: 1 };
	return { x, beyond: 0 };
}

export interface DiffPart {
	text: string;
	differs: boolean;
}

/** A value cut into the beginning and end that all runs share and the middle that differs. */
export function diffParts(value: string, others: readonly string[]): DiffPart[] {
	const rest = others.filter((o) => o !== value);
	if (!rest.length) return [{ text: value, differs: false }];
	const words = value.split(/(?<=[\s,;:/=])/);
	const apart = rest.map((o) => o.split(/(?<=[\s,;:/=])/));
	let a = 0;
	while (a < words.length && apart.every((o) => o[a] === words[a])) a++;
	let b = 0;
	while (
		b < words.length - a &&
		apart.every((o) => b < o.length - a && o[o.length - 1 - b] === words[words.length - 1 - b])
	)
		b++;
	const parts = [
		{ text: words.slice(0, a).join(""), differs: false },
		{ text: words.slice(a, words.length - b).join(""), differs: true },
		{ text: words.slice(words.length - b).join(""), differs: false },
	];
	return parts.filter((p) => p.text !== "");
}
