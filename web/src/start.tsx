// SPDX-License-Identifier: Apache-2.0
import { render } from "preact";
import { App } from "./app";
import { themeInit } from "./theme";

export function start(): void {
	themeInit();
	render(<App />, document.getElementById("app") as HTMLElement);
}
