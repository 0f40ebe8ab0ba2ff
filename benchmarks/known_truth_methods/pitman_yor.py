"""A Pitman-Yor process fitted to how many users are told apart, by its authors' package.

Rocher, Hendrickx and de Montjoye 2025, "A scaling law to model the effectiveness of identification
techniques" (Nature Communications); `pydataless` 1.1.0 of PyPI. It runs in an environment and a
process of its own, as it needs versions of libraries that fpmonitor does not. A fit takes half a
second, so that answers are kept in the cache: other methods can be run again in minutes.
"""

import atexit
import hashlib
import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

NAME = "Pitman-Yor"
PROMISES = False
PACKAGE = "pydataless==1.1.0"


def answer(sample):
    asked = {
        "counts": sample.spectrum.counts.tolist(),
        "values": sample.spectrum.values.tolist(),
        "k": sample.k,
        "population": sample.population,
    }
    line = json.dumps(asked)
    kept, name = _kept(sample.cache), hashlib.sha256(line.encode()).hexdigest()
    if name not in kept:
        worker = _worker(sample.cache)
        worker.stdin.write(line + "\n")
        worker.stdin.flush()
        kept[name] = json.loads(worker.stdout.readline())
        with _file(sample.cache).open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, kept[name]]) + "\n")
    return None, kept[name], None


def _file(cache):
    return Path(cache) / f"{PACKAGE}.jsonl"


@lru_cache
def _kept(cache):
    file = _file(cache)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return dict(map(json.loads, lines))


@lru_cache
def _worker(cache):
    folder = Path(cache) / "pydataless"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    program = [python, Path(__file__).with_name("_pitman_yor_worker.py")]
    worker = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(worker.kill)
    return worker
