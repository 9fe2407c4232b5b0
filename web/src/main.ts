// SPDX-License-Identifier: Apache-2.0
//
// The first file: asks for data while the program itself is on its way.
import "./style.css";
import { preloadPage } from "./preload";

preloadPage(location.hash, document.documentElement.clientWidth);
void import("./start").then((m) => m.start());
