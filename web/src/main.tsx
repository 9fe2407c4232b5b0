// SPDX-License-Identifier: Apache-2.0
//
// The program. In the built page first.ts has run before it, and loads it.
import "./style.css";
import { render } from "preact";
import { App } from "./app";
import { themeInit } from "./theme";

themeInit();
render(<App />, document.getElementById("app") as HTMLElement);
