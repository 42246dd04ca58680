"""Print how many rows contradict, by vendor and kind: `python -m tests.parity`."""

from __future__ import annotations

from tests.parity.server import VENDORS
from tests.parity.tables import ROWS, count


def main() -> None:
    kinds = list(ROWS)
    print(f"{'contradict / rows':18}" + "".join(f"{kind:>14}" for kind in (*kinds, "all")))
    for vendor in (*VENDORS, "all"):
        counted = [_sum(kind, vendor) for kind in kinds]
        cells = [*counted, (sum(one for one, _ in counted), sum(all for _, all in counted))]
        print(f"{vendor:18}" + "".join(f"{f'{one} / {all}':>14}" for one, all in cells))


def _sum(kind: str, vendor: str) -> tuple[int, int]:
    counted = [count(kind, one) for one in (VENDORS if vendor == "all" else [vendor])]
    return sum(one for one, _ in counted), sum(all for _, all in counted)


if __name__ == "__main__":
    main()
