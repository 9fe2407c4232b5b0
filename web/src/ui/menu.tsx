// SPDX-License-Identifier: Apache-2.0
//
// A button that opens a list of things to do.
import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";

export interface MenuItem {
	label: string;
	/** A switch that is on or off. */
	on?: boolean;
	run?: () => void;
	href?: string;
	/** With href: save it, under this name. */
	file?: string;
}

export function Menu({ label, items, children }: { label: string; items: readonly MenuItem[]; children?: ComponentChildren }) {
	const [open, setOpen] = useState(false);
	const root = useRef<HTMLDivElement>(null);

	useEffect(() => {
		if (!open) return;
		const away = (e: Event) => {
			if (!root.current?.contains(e.target as Node)) setOpen(false);
		};

		document.addEventListener("pointerdown", away);
		root.current?.querySelector<HTMLElement>("[role^=menuitem]")?.focus();
		return () => document.removeEventListener("pointerdown", away);
	}, [open]);
	const keys = (e: KeyboardEvent) => {
		const all = [...(root.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
		const at = all.indexOf(document.activeElement as HTMLElement);

		if (e.key === "Escape" && open) {
			setOpen(false);
			root.current?.querySelector("button")?.focus();
		} else if (e.key === "ArrowDown") all[(at + 1) % all.length]?.focus();
		else if (e.key === "ArrowUp") all[(at - 1 + all.length) % all.length]?.focus();
		else return;
		e.preventDefault();
		e.stopPropagation();
	};

	return (
		<div class="menu" ref={root} onKeyDown={keys}>
			<button type="button" class={children ? "button" : "icon"} aria-haspopup="menu" aria-expanded={open} aria-label={children ? undefined : label} title={label} onClick={() => setOpen(!open)}>
				{children ?? "⋯"}
			</button>
			{open && (
				<div class="menu-list" role="menu" aria-label={label}>
					{items.map((i) =>
						i.href !== undefined ? (
							<a role="menuitem" href={i.href} download={i.file} onClick={() => setOpen(false)}>{i.label}</a>
						) : (
							<button
								type="button" role={i.on === undefined ? "menuitem" : "menuitemcheckbox"} aria-checked={i.on}
								onClick={() => (setOpen(false), i.run?.())}
							>
								{i.on !== undefined && <span class="check">{i.on ? "✓" : ""}</span>}
								{i.label}
							</button>
						),
					)}
				</div>
			)}
		</div>
	);
}
