# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows: the few control sequences that lapse and plain programs
use (cursor kept and restored, scroll region, erasing, moving), as ECMA-48 and the
VT100 define them. Others are an error, so that a test cannot pass by accident."""
import re

SEQUENCE = re.compile(r"\x1b(?:\[([0-9;?]*)([A-Za-z])|([78DM]))")


class Screen:
    def __init__(self, rows=24, columns=80):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.kept = (0, 0)
        self.region = (0, rows - 1)
        self.reverse = False

    def resize(self, rows, columns):
        """As xterm does without reflow: the top left corner stays."""
        self.cells = [(line + [" "] * columns)[:columns] for line in self.cells[:rows]]
        self.cells += [[" "] * columns for _ in range(rows - len(self.cells))]
        self.rows, self.columns = rows, columns
        self.row, self.column = min(self.row, rows - 1), min(self.column, columns - 1)
        self.region = (0, rows - 1)

    def line(self, row):
        return "".join(self.cells[row]).rstrip()

    def lines(self):
        return [self.line(row) for row in range(self.rows)]

    def down(self):
        top, bottom = self.region
        if self.row == bottom:
            del self.cells[top]
            self.cells.insert(bottom, [" "] * self.columns)
        elif self.row < self.rows - 1:
            self.row += 1

    def feed(self, data):
        text, at = data.decode("utf-8", "replace"), 0
        while at < len(text):
            if text[at] != "\x1b":
                self._character(text[at])
                at += 1
                continue
            found = SEQUENCE.match(text, at)
            assert found, f"unknown sequence {text[at:at + 12]!r}"
            at = found.end()
            if found[3]:
                self._short(found[3])
            else:
                self._long(found[1], found[2])
        return self

    def _character(self, c):
        if c == "\n":
            self.down()
        elif c == "\r":
            self.column = 0
        elif c == "\b":
            self.column = max(0, self.column - 1)
        elif c >= " ":
            if self.column == self.columns:
                self.column = 0
                self.down()
            self.cells[self.row][self.column] = c
            self.column += 1

    def _short(self, letter):
        if letter == "7":
            self.kept = (self.row, self.column)
        elif letter == "8":
            self.row, self.column = self.kept
        elif letter == "D":
            self.down()
        else:
            raise AssertionError(f"ESC {letter}")

    def _long(self, text, letter):
        numbers = [int(n) if n.isdigit() else 0 for n in text.split(";")]
        if letter == "r":
            bottom = numbers[1] if len(numbers) > 1 else self.rows
            self.region = (max(numbers[0], 1) - 1, bottom - 1)
            self.row = self.column = 0
        elif letter == "H":
            self.row = min(max(numbers[0], 1), self.rows) - 1
            self.column = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif letter == "A":
            self.row = max(0, self.row - max(numbers[0], 1))
        elif letter == "K":
            start = 0 if numbers[0] == 2 else self.column
            for column in range(start, self.columns):
                self.cells[self.row][column] = " "
        elif letter == "m":
            self.reverse = 7 in numbers
        else:
            assert text.startswith("?"), f"ESC [ {text} {letter}"
