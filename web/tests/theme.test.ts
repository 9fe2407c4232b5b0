// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, it, vi } from "vitest";

const dataset: Record<string, string> = {};

beforeEach(() => {
	vi.resetModules();
	vi.stubGlobal("document", { documentElement: { dataset } });
	vi.stubGlobal("matchMedia", () => ({ matches: true, addEventListener: () => undefined }));
	// As where the data of sites is blocked: the name itself is an error, even for typeof.
	Object.defineProperty(globalThis, "localStorage", {
		configurable: true,
		get: () => {
			throw new DOMException("Access is denied for this document.", "SecurityError");
		},
	});
});
afterEach(() => {
	vi.unstubAllGlobals();
	Reflect.deleteProperty(globalThis, "localStorage");
});

it("is the system's where nothing may be kept, and can be chosen until the page is closed", async () => {
	expect(() => typeof localStorage).toThrow("denied");
	const theme = await import("../src/theme");

	theme.themeShow();
	expect(dataset.theme).toBe("dark");
	expect(theme.themeNow()).toEqual({ theme: "system", dark: true });
	theme.themeInit();
	theme.setTheme("light");
	expect(dataset.theme).toBe("light");
	expect(theme.isDark()).toBe(false);
});
