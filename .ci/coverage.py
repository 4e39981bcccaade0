"""Prints the covered lines of each file of host/src, and fails where they are too few."""

import json
import re
import sys
from pathlib import Path

LEAST = 90.0

# What a GPU's driver must answer; the tests of these run on a GPU, and count there.
NEEDS_DRIVER = re.compile(r"^(driver/.*|device/cuda)\.rs$")
# Tests beside what they test.
TESTS = re.compile(r"(^|/)tests(/|\.rs$)")


def main() -> int:
    root = Path("host/src").resolve()
    rows: dict[bool, list[tuple[str, int, int]]] = {False: [], True: []}
    for file in json.loads(Path(sys.argv[1]).read_text())["data"][0]["files"]:
        path = Path(file["filename"])
        if not path.is_relative_to(root):
            continue
        name = str(path.relative_to(root))
        if TESTS.search(name):
            continue
        lines = file["summary"]["lines"]
        rows[bool(NEEDS_DRIVER.match(name))].append((name, lines["covered"], lines["count"]))
    totals = []
    for apart, title in [(False, "host/src"), (True, "host/src, files that need a driver")]:
        covered, count = (sum(row[i] for row in rows[apart]) for i in (1, 2))
        percent = 100.0 * covered / max(count, 1)
        totals.append(percent)
        print(f"{title}: {percent:.2f} % of {count} lines")
        for name, of, out_of in sorted(rows[apart], key=lambda row: row[1] / max(row[2], 1)):
            print(f"  {100.0 * of / max(out_of, 1):6.2f} % {of:5d} / {out_of:<5d} {name}")
    if totals[0] < LEAST:
        print(f"coverage is below {LEAST} %")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
