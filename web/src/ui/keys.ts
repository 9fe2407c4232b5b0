// SPDX-License-Identifier: Apache-2.0
//
// Keyboard shortcuts of the page: a key, or two one after the other ("g r"). Those of
// components come and go with them; "?" shows them all.
import { useEffect } from "preact/hooks";

export interface Shortcut {
	keys: string;
	text: string;
	run: () => void;
}

const all = new Set<Shortcut>();
let first = "";
let firstAt = 0;

export function shortcuts(): Shortcut[] {
	return [...all];
}

function typing(e: KeyboardEvent): boolean {
	const t = e.target as HTMLElement;

	return t.isContentEditable || t.matches("input:not([type=checkbox], [type=range]), textarea, select") || !!t.closest("dialog, [role=menu], [role=listbox]");
}

/** Once, by the page. */
export function listen(): void {
	document.addEventListener("keydown", (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
		const two = first && Date.now() - firstAt < 1200 ? `${first} ${e.key}` : "";
		const found = [...all].reverse().find((s) => s.keys === two) ?? [...all].reverse().find((s) => s.keys === e.key);

		first = "";
		if (found) {
			e.preventDefault();
			found.run();
		} else if ([...all].some((s) => s.keys.startsWith(e.key + " "))) {
			first = e.key;
			firstAt = Date.now();
		}
	});
}

export function useShortcuts(list: readonly Shortcut[]): void {
	useEffect(() => {
		for (const s of list) all.add(s);
		return () => {
			for (const s of list) all.delete(s);
		};
	});
}
