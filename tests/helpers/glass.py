"""A small terminal: what a person sees after bytes were sent to it, line by line."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b[^\[]|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f\x1b]+", re.DOTALL)


class Glass:
    """Obeys what hostile text would use: moving, erasing, concealing, wrapping. It scrolls without end."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0
        self._concealed = False

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._rows]

    def feed(self, text: str) -> None:
        for found in _TOKEN.finditer(text):
            if found[2]:
                self._order(found[2], [int(one or 0) for one in found[1].split(";")])
            elif found[0] == "\n":
                self._to(self._row + 1, self._column)
            elif found[0] == "\r":
                self._column = 0
            elif found[0] == "\b":
                self._column = max(self._column - 1, 0)
            elif found[0][0] >= " ":
                for character in found[0]:
                    self._put(character)

    def _put(self, character: str) -> None:
        if self._column == self._columns:
            self._to(self._row + 1, 0)
        row = self._rows[self._row]
        row.extend(" " * (self._column + 1 - len(row)))
        row[self._column] = " " if self._concealed else character
        self._column += 1

    def _order(self, order: str, given: list[int]) -> None:
        count = max(given[0], 1)
        row = self._rows[self._row]
        match order:
            case "A":
                self._to(max(self._row - count, 0), self._column)
            case "B":
                self._to(min(self._row + count, len(self._rows) - 1), self._column)
            case "C":
                self._column = min(self._column + count, self._columns - 1)
            case "D":
                self._column = max(self._column - count, 0)
            case "G":
                self._column = min(count, self._columns) - 1
            case "H" | "f":
                self._to(count - 1, 0)
            case "K" if given[0] == 0:
                del row[self._column :]
            case "K":
                row.clear()
            case "J" if given[0] == 0:
                del row[self._column :], self._rows[self._row + 1 :]
            case "J":
                self._rows = [[] for _ in self._rows]
            case "m":
                self._concealed = 8 in given

    def _to(self, row: int, column: int) -> None:
        self._rows.extend([] for _ in range(row + 1 - len(self._rows)))
        self._row, self._column = row, column
