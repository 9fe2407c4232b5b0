# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows of what ncurses writes for xterm and screen: more sequences
than screen.py knows, still no others."""
import re

from screen import Screen

CSI = re.compile(r"\x1b\[([?>]?)([0-9;]*)([@A-Za-z])")
SHORT = re.compile(r"\x1b(?:[()][A-Z0-9]|[=>78M])")


class CursesScreen(Screen):
    def __init__(self, rows=24, columns=80):
        super().__init__(rows, columns)
        self.modes = set()  # private ones that are on: 1049 is the other screen, 25 the cursor
        self.last = " "

    def feed(self, data):
        text, at = data.decode("utf-8", "replace"), 0
        while at < len(text):
            if text[at] != "\x1b":
                if text[at] not in "\x07\x0e\x0f":
                    self._character(text[at])
                    self.last = text[at]
                at += 1
                continue
            found = CSI.match(text, at)
            if found:
                self._sequence(found[1], [int(n or 0) for n in found[2].split(";")], found[3])
            else:
                found = SHORT.match(text, at)
                # The end may have been cut off.
                assert found or len(text) - at < 12, f"unknown sequence {text[at:at + 12]!r}"
                if not found:
                    return self
                if found[0] == "\x1bM" and self.row == self.region[0]:
                    self._sequence("", [1], "T")
                elif found[0] == "\x1bM":
                    self.row -= 1
            at = found.end()
        return self

    def _sequence(self, private, numbers, letter):
        first = max(numbers[0], 1)
        if private == "?":
            (self.modes.update if letter == "h" else self.modes.difference_update)(numbers)
        elif private or letter in "mrtlhcn":
            if letter == "r":
                bottom = numbers[1] if len(numbers) > 1 and numbers[1] else self.rows
                self.region = (first - 1, bottom - 1)
        elif letter in "Hf":
            self._long(";".join(map(str, numbers)), "H")
        elif letter == "d":
            self.row = min(first, self.rows) - 1
        elif letter == "G":
            self.column = min(first, self.columns) - 1
        elif letter in "ABCD":
            self.row = min(max(self.row + {"A": -first, "B": first}.get(letter, 0), 0), self.rows - 1)
            self.column = min(max(self.column + {"C": first, "D": -first}.get(letter, 0), 0),
                              self.columns - 1)
        elif letter == "b":
            for _ in range(first):
                self._character(self.last)
        else:
            self._erase(numbers[0], first, letter)

    def _erase(self, how, n, letter):
        line = self.cells[self.row]
        if letter == "X":
            line[self.column:self.column + n] = [" "] * min(n, self.columns - self.column)
        elif letter == "P":
            del line[self.column:self.column + n]
            line += [" "] * (self.columns - len(line))
        elif letter == "@":
            line[self.column:self.column] = [" "] * n
            del line[self.columns:]
        elif letter == "K":
            cells = {0: range(self.column, self.columns), 1: range(self.column + 1),
                     2: range(self.columns)}[how]
            for x in cells:
                line[x] = " "
        elif letter == "J":
            rows = {0: range(self.row + 1, self.rows), 1: range(self.row), 2: range(self.rows)}[how]
            for y in rows:
                self.cells[y] = [" "] * self.columns
            if how < 2:
                self._erase(how, 1, "K")
        else:
            self._lines(n, letter)

    def _lines(self, n, letter):
        top = self.row if letter in "LM" else self.region[0]
        bottom = self.region[1]
        for _ in range(n):
            if letter in "LT":
                del self.cells[bottom]
                self.cells.insert(top, [" "] * self.columns)
            else:
                assert letter in "MS", letter
                del self.cells[top]
                self.cells.insert(bottom, [" "] * self.columns)
