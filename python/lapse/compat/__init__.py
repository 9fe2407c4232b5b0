# SPDX-License-Identifier: Apache-2.0
"""Programs written after one of the source documents go on with another import line: one
module a document, with its classes, arguments and files over the real thing. What a module
does not have yet is absent, and docs/callbacks.md says so."""
