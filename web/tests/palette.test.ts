// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { contrast, DARK, LIGHT, pen } from "../src/palette";

const css = readFileSync(new URL("../src/style.css", import.meta.url), "utf8");
const themes = [css.slice(css.indexOf(":root {"), css.indexOf(":root[data")), css.slice(css.indexOf(":root[data"), css.indexOf("*, *::before"))].map((block) => {
	const v = (name: string) => {
		const hex = new RegExp(`--${name}: (#[0-9a-f]{3,6})`).exec(block)?.[1] ?? "";

		return hex.length === 4 ? "#" + [...hex.slice(1)].map((c) => c + c).join("") : hex;
	};

	return { panel: v("panel"), ground: v("ground"), hover: v("hover"), text: v("text"), muted: v("muted"), accent: v("accent"), good: v("good"), warning: v("warning"), error: v("error"), goodSoft: v("good-soft"), warningSoft: v("warning-soft"), errorSoft: v("error-soft"), accentSoft: v("accent-soft") };
});

test("contrast of known pairs", () => {
	expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 5);
	expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
});

test("lines stand out from the ground", () => {
	for (const c of LIGHT) expect(contrast(c, themes[0]?.panel ?? ""), c).toBeGreaterThan(3);
	for (const c of DARK) expect(contrast(c, themes[1]?.panel ?? ""), c).toBeGreaterThan(3);
});

test("text can be read on all grounds", () => {
	for (const t of themes) {
		for (const ground of [t.panel, t.ground, t.hover]) {
			expect(contrast(t.text, ground)).toBeGreaterThan(7);
			expect(contrast(t.muted, ground)).toBeGreaterThan(4.5);
		}
		expect(contrast(t.accent, t.panel)).toBeGreaterThan(4.5);
		for (const [c, soft] of [[t.good, t.goodSoft], [t.warning, t.warningSoft], [t.error, t.errorSoft], [t.accent, t.accentSoft]] as const) expect(contrast(c, soft), `${c} on ${soft}`).toBeGreaterThan(4.5);
	}
});

test("lines beyond the palette differ by dashes", () => {
	const seen = new Set(Array.from({ length: 32 }, (_, i) => JSON.stringify(pen(i, false))));

	expect(seen.size).toBe(32);
});
