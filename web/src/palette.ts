// SPDX-License-Identifier: Apache-2.0
//
// Colours of lines: Okabe and Ito's set, darkened (on light) or lightened (on dark) until each
// has a contrast of at least 3 with the ground (tests/palette.test.ts). Beyond eight lines
// the same colours come again with dashes.

export const LIGHT = ["#0072b2", "#d55e00", "#00875f", "#b3548c", "#a87200", "#2b87bd", "#6b5bd2", "#5f6670"] as const;
export const DARK = ["#58a6e8", "#f08a3c", "#2fbf93", "#e08fbd", "#e5b13a", "#8fd0f5", "#a99bff", "#a9b1bb"] as const;
const DASHES: readonly (readonly number[])[] = [[], [6, 4], [2, 3], [10, 3, 2, 3]];

export interface Pen {
	color: string;
	dash: number[];
}

/** The pen of the n-th line. */
export function pen(n: number, dark: boolean): Pen {
	const set = dark ? DARK : LIGHT;

	return {
		color: set[n % set.length] as string,
		dash: [...(DASHES[Math.floor(n / set.length) % DASHES.length] as readonly number[])],
	};
}

function channel(hex: string, at: number): number {
	const v = parseInt(hex.slice(at, at + 2), 16) / 255;

	return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
}

function luminance(hex: string): number {
	return 0.2126 * channel(hex, 1) + 0.7152 * channel(hex, 3) + 0.0722 * channel(hex, 5);
}

/** Contrast of two colours "#rrggbb" as WCAG defines it, 1 to 21. */
export function contrast(a: string, b: string): number {
	const [hi, lo] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];

	return (hi + 0.05) / (lo + 0.05);
}

/** A colour "#rrggbb" with an opacity. */
export function fade(hex: string, alpha: number): string {
	return hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
}

const PENS: Record<string, number> = { forward: 0, data: 1, optimizer: 2, communication: 3, log: 3, checkpoint: 4, evaluation: 5, backward: 6, other: 7 };

/** The pen of each part of a step: a role has its own, wherever it is shown; a second part of
 * the same role, and what has none, take what is free, then dashes. */
export function partPens(parts: readonly { role: string }[]): number[] {
	const used = new Set<number>([7]);
	const wanted = parts.map((p) => {
		const n = PENS[p.role];

		if (n === undefined || (n !== 7 && used.has(n))) return -1;
		used.add(n);
		return n;
	});
	let next = 0;

	return wanted.map((n) => {
		if (n >= 0) return n;
		while (used.has(next) || next % 8 === 7) next++;
		used.add(next);
		return next;
	});
}
