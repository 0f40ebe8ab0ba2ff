"""Reading FingerprintJS results against bare readers of the same file.

`python benchmarks/collectors.py --records 20000` writes results like those of fixtures/records,
with other values from record to record, as JSON lines; then reads them in turn with `json.loads`
line by line, with DuckDB's `read_json_objects`, and with `ingest` into a new database, each in a
process of its own. JSON goes to stdout: seconds, bytes, peak memory, and the speed of ingest as a
ratio to both.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path

from ingest import OURS, run

RECORD = Path(__file__).parents[1] / "fixtures" / "records" / "fingerprintjs-5.json"
JSON = """
import json, sys
with open(sys.argv[2], encoding="utf-8") as file:
    for line in file:
        json.loads(line)
"""
DUCKDB = """
import sys, duckdb
duckdb.sql(
    "SELECT count(json_extract(json, '/components/vendor')) "
    f"FROM read_json_objects('{sys.argv[2]}', format = 'newline_delimited')"
).fetchall()
"""


def write_log(path: Path, records: int) -> None:
    rng = random.Random(1)
    result = json.loads(RECORD.read_text(encoding="utf-8"))
    components = result["components"]
    with path.open("w", encoding="utf-8") as file:
        for number in range(records):
            components["hardwareConcurrency"]["value"] = rng.choice([2, 4, 8, 16])
            components["canvas"]["value"]["text"] = f"data:,{rng.randrange(1000)}" + "x" * 10_000
            components["webGlExtensions"]["value"]["parameters"][0] = str(rng.randrange(100))
            components["timezone"]["value"] = f"Zone/{rng.randrange(50)}"
            file.write(json.dumps({"user": f"u{number}", **result}, separators=(",", ":")) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "fp.jsonl"
        write_log(log, options.records)
        runs = {
            name: run(script, Path(scratch) / "x.duckdb", log)
            for name, script in (("json", JSON), ("duckdb", DUCKDB), ("ingest", OURS))
        }
        ours = runs["ingest"]
        print(
            json.dumps(
                {
                    "records": options.records,
                    "log_bytes": log.stat().st_size,
                    "seconds": {name: round(done.seconds, 2) for name, done in runs.items()},
                    "peak_bytes": {name: done.peak_bytes for name, done in runs.items()},
                    "speed_to_json": round(runs["json"].seconds / ours.seconds, 2),
                    "speed_to_duckdb": round(runs["duckdb"].seconds / ours.seconds, 2),
                },
                indent=2,
            )
        )


if __name__ == "__main__":
    main()
