// SPDX-License-Identifier: Apache-2.0
//
// words.tsx - a sentence of the program's; what stands between backticks is a command.
import { shorten } from "../fmt";

export function Words({ text }: { text: string }) {
	return <bdi>{shorten(text, 600).split("`").map((part, i) => (i % 2 ? <code>{part}</code> : part))}</bdi>;
}
