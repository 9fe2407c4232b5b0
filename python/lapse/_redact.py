# SPDX-License-Identifier: Apache-2.0
"""What must not be stored: the rules of the C launcher (src/cli/launch_redact.c)
for names, arguments and text, and the secrets that this process is known to hold.

A name is split into words; one that is in the table makes its value a secret.
When in doubt a value is hidden. A test runs both languages on the same cases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REDACTED = "REDACTED"

# word: (also as the end of a longer word, words that make it harmless when they
# follow)
_NONE: frozenset[str] = frozenset()
_WORDS: dict[str, tuple[bool, frozenset[str]]] = {
    "key": (True, frozenset("value values head heads dim size padding".split())),
    "keys": (True, _NONE),
    "token": (True, frozenset("id ids type types length len count limit budget".split())),
    "secret": (True, _NONE),
    "secrets": (True, _NONE),
    "password": (True, _NONE),
    "passwords": (True, _NONE),
    "passwd": (True, _NONE),
    "passphrase": (True, _NONE),
    "pwd": (False, _NONE),
    "credential": (True, _NONE),
    "credentials": (True, _NONE),
    "auth": (True, _NONE),
    "authorization": (True, _NONE),
}
_WORD_MAX = 31  # of a longer word only the end is compared

_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NAME = _LETTERS | frozenset("0123456789_-.+")
_SAFE = _NAME | frozenset("@%=:,/")
_WORD_END = frozenset(" \t\n\"'&;|)`")
_HEADER_END = frozenset("\n\"'}")  # "Authorization: Bearer X"
_URL_END = frozenset("/?# \t\n\"'")
_BLANK = frozenset(" \t")

_KNOWN_MIN, _WORD_LIKE_MAX = 6, 11  # characters; see _is_telling()
_KNOWN_MAX = 256  # values remembered
_known: set[str] = set()

_PEM_BEGIN, _PEM_KEY, _PEM_END = "-----BEGIN ", "PRIVATE KEY-----", "-----END "


def _words(name: str) -> Iterator[str]:
    """Words in lower case: "wandbApiKey_2" is wandb, api, key."""
    word, before = "", ""
    for c in name:
        if c not in _LETTERS or (c.isupper() and before.islower()):
            if word:
                yield word[-_WORD_MAX:].lower()
            word = ""
        if c in _LETTERS:
            word += c
        before = c
    if word:
        yield word[-_WORD_MAX:].lower()


def _matches(word: str, following: str) -> bool:
    for secret, (at_end, not_before) in _WORDS.items():
        if (word == secret or (at_end and word.endswith(secret))) and following not in not_before:
            return True
    return False


# One of these is in each word of the table: asked first, as most names have none.
_HINTS = ("key", "token", "secret", "pass", "pwd", "credential", "auth")


def is_secret(name: str) -> bool:
    """Does a value of this name look like a secret?"""
    lower = name.lower()
    if not any(hint in lower for hint in _HINTS):
        return False
    words = [*_words(name), ""]
    return any(_matches(words[i], words[i + 1]) for i in range(len(words) - 1))


# ---- values that are known -------------------------------------------------------


def _is_telling(secret: str) -> bool:
    """`--sort-key=length` must not take the word "length" out of each message."""
    word_like = len(secret) <= _WORD_LIKE_MAX and all("a" <= c <= "z" for c in secret)
    return len(secret) >= _KNOWN_MIN and not word_like and secret != REDACTED


def learn(secret: str) -> None:
    """Hide this value in whatever text comes later."""
    if len(_known) < _KNOWN_MAX and _is_telling(secret):
        _known.add(secret)


def _environment() -> Iterator[str]:
    for name, secret in list(os.environ.items()):
        if not _is_telling(secret) or not is_secret(name):
            continue
        # $PWD, a socket of an agent: places, which are no secrets.
        if not (secret.startswith("/") and os.path.lexists(secret)):
            yield secret


def secrets() -> set[str]:
    """The values of the environment that are secrets. It takes 0.7 ms for 240 variables, so
    whoever has many texts asks once."""
    return set(_environment())


def value(path: str, text: str, environment: set[str] | None = None) -> str:
    """The text of a setting with this name, or REDACTED. A part of "outer/inner"
    that looks like a secret hides all below it; a password in a URL goes too.
    environment: secrets(), if it was asked already."""
    if any(is_secret(part) for part in path.split("/")):
        learn(text)
        return REDACTED if text else text
    return message(text, environment)


# ---- arguments and running text ----------------------------------------------------


def _skip(text: str, at: int, members: frozenset[str]) -> int:
    while at < len(text) and text[at] in members:
        at += 1
    return at


def _until(text: str, at: int, stop: frozenset[str]) -> int:
    while at < len(text) and text[at] not in stop:
        at += 1
    return at


def _find_value(text: str, at: int, whole: bool, option: bool) -> tuple[int, frozenset[str]] | None:
    """Behind the name that ends at `at`: where its value begins and what ends it
    (nothing: it is the whole rest); None if no value follows."""
    quoted = text[at : at + 1] in ("'", '"')
    p = _skip(text, at + quoted, _BLANK)
    if text.startswith("=", p):
        return _skip(text, p + 1, _BLANK), _NONE if whole else _WORD_END
    if text.startswith(":", p) and not text.startswith("://", p):
        return _skip(text, p + 1, _BLANK), _HEADER_END
    if option and not quoted and p > at and not text.startswith("--", p):
        return p, _WORD_END
    return None


class _Out:
    """A text being put together, and what was left out of it."""

    __slots__ = ("hidden", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.hidden: list[str] = []

    def hide(self, before: str, secret: str) -> None:
        self.parts += (before, REDACTED)
        self.hidden.append(secret)


def _hide_value(text: str, at: int, whole: bool, option: bool, out: _Out) -> int:
    found = _find_value(text, at, whole, option)
    if found is None:
        return at
    p, stop = found
    if stop and text[p : p + 1] in ("'", '"'):
        stop = frozenset(text[p])
        p += 1
    end = _until(text, p, stop) if stop else len(text)
    if end == p:
        return at
    out.hide(text[at:p], text[p:end])
    return end


def _hide_url(text: str, at: int, out: _Out) -> int:
    """At "://": the password of user:password@host."""
    begin = at + 3
    end = _until(text, begin, _URL_END)
    host = text.rfind("@", begin, end)
    colon = text.find(":", begin, host) if host >= 0 else -1
    if colon < 0:
        out.parts.append("://")
        return begin
    out.hide(text[at : colon + 1], text[colon + 1 : host])
    return host


def _scan(text: str, argument: bool, out: _Out) -> bool:
    """Put the text without its secrets into `out`. True: it is an option whose
    value is the next argument."""
    at = 0
    while at < len(text):
        if text.startswith("://", at):
            at = _hide_url(text, at, out)
            continue
        end = _skip(text, at, _NAME)
        if end == at:
            out.parts.append(text[at])
            at += 1
            continue
        name, first = text[at:end], argument and at == 0
        out.parts.append(name)
        if is_secret(name):
            if first and end == len(text):
                return name.startswith("-")
            end = _hide_value(text, end, first, name.startswith("-"), out)
        at = end
    return False


def _quote(argument: str) -> str:
    if argument and all(c in _SAFE for c in argument):
        return argument
    return "'" + argument.replace("'", "'\\''") + "'"


def command(argv: Sequence[str]) -> str:
    """A command line as a shell reads it, without secrets."""
    out: list[str] = []
    hide = False
    for argument in argv:
        if hide and not argument.startswith("--"):
            learn(argument)
            out.append(REDACTED)
            hide = False
            continue
        clean = _Out()
        hide = _scan(argument, True, clean)
        for secret in clean.hidden:
            learn(secret)
        out.append(_quote("".join(clean.parts)))
    return " ".join(out)


def _hide_keys(text: str) -> str:
    """Private keys in PEM go, also one whose end is missing."""
    out: list[str] = []
    at = 0
    while True:
        begin = text.find(_PEM_BEGIN, at)
        body = text.find(_PEM_KEY, begin) if begin >= 0 else -1
        if body < 0:
            return "".join(out) + text[at:]
        body += len(_PEM_KEY)
        end = text.find(_PEM_END, body)
        out += (text[at:body], "\n", REDACTED, "\n")
        at = end if end >= 0 else len(text)


def message(text: str, environment: set[str] | None = None) -> str:
    """Text of an exception or a warning without the secrets that this process is
    known to hold and passwords in URLs. Names are left alone: what follows
    "KeyError:" is what one wants to read."""
    out, at = _Out(), 0
    while (found := text.find("://", at)) >= 0:
        out.parts.append(text[at:found])
        at = _hide_url(text, found, out)
    text = "".join(out.parts) + text[at:]
    # The longest first: one may be a part of another.
    if environment is None:
        environment = secrets()
    for secret in sorted(_known | environment, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, REDACTED)
    return _hide_keys(text)


def diff(text: str) -> str:
    """A diff: each line by the rules for running text, then as message()."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        lower = line.lower()
        if "://" in lower or any(hint in lower for hint in _HINTS):
            clean = _Out()
            _scan(line[1:], False, clean)
            lines[i] = line[:1] + "".join(clean.parts)
    return message("\n".join(lines))
