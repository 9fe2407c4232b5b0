// SPDX-License-Identifier: Apache-2.0
//
// Light or dark: what the system prefers, or what was chosen here (kept in this browser).

export type Theme = "system" | "light" | "dark";

const KEY = "lapse-theme";
const listeners = new Set<() => void>();
const prefers = () => (typeof matchMedia === "undefined" ? null : matchMedia("(prefers-color-scheme: dark)"));

function stored(): Theme {
	// Where a browser keeps nothing, naming localStorage is already an error.
	try {
		const v = localStorage.getItem(KEY);

		return v === "light" || v === "dark" ? v : "system";
	} catch {
		return "system";
	}
}

let chosen: Theme | undefined; // asked for when needed: the browser takes its time to answer

function choice(): Theme {
	return (chosen ??= stored());
}

export function isDark(): boolean {
	return choice() === "dark" || (choice() === "system" && !!prefers()?.matches);
}

const colors = new Map<string, string>();

/** Before anything is drawn. */
export function themeShow(): void {
	document.documentElement.dataset.theme = isDark() ? "dark" : "light";
}

function apply(): void {
	colors.clear();
	themeShow();
	for (const f of [...listeners]) f();
}

export function themeInit(): void {
	apply();
	prefers()?.addEventListener("change", apply);
}

export function setTheme(theme: Theme): void {
	chosen = theme;
	try {
		if (theme === "system") localStorage.removeItem(KEY);
		else localStorage.setItem(KEY, theme);
	} catch {
		/* a browser that keeps nothing: until the page is closed */
	}
	apply();
}

/** Called when it changes, until the returned function is. */
export function onTheme(f: () => void): () => void {
	listeners.add(f);
	return () => void listeners.delete(f);
}

export function themeNow(): { theme: Theme; dark: boolean } {
	return { theme: choice(), dark: isDark() };
}

/** The value of a colour of style.css: cssColor("--line"). */
export function cssColor(name: string): string {
	let value = colors.get(name);

	// Asking makes the browser work out all styles anew.
	if (value === undefined) {
		value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
		colors.set(name, value);
	}
	return value;
}
