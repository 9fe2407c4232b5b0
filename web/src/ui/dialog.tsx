// SPDX-License-Identifier: Apache-2.0
//
// A window over the page; Escape, the button or a click beside it closes it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

export function Dialog({ title, close, children, wide = false }: { title: ComponentChildren; close: () => void; children: ComponentChildren; wide?: boolean }) {
	const me = useRef<HTMLDialogElement>(null);

	useEffect(() => {
		const before = document.activeElement as HTMLElement | null;

		me.current?.showModal();
		return () => before?.focus?.();
	}, []);
	return (
		<dialog
			ref={me} class={"dialog" + (wide ? " wide" : "")} aria-label={typeof title === "string" ? title : undefined} onClose={close}
			onClick={(e) => e.target === me.current && me.current?.close()} onKeyDown={(e) => e.stopPropagation()}
		>
			<div class="dialog-body">
				<header>
					<h2>{title}</h2>
					<span class="spring" />
					<button type="button" class="icon" aria-label="Close" onClick={() => me.current?.close()}>✕</button>
				</header>
				{children}
			</div>
		</dialog>
	);
}
