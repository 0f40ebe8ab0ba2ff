"""Build the wheel and the sdist of the current commit, and check what a release must keep.

`python scripts/release.py -o dist` builds both twice, in different folders, and ends with 1 unless
the bytes are equal. Version, changelog, tag and metadata must agree,
and neither archive may hold the name of a folder or of the machine it was built on. `--rehearse`
allows a version whose section of the changelog is not dated yet. Nothing is published, and no tag
is set. Beside the archives stand the bill of materials of what fpmonitor needs (CycloneDX), with
the versions of `--environment`, and the digests of all in `SHA256SUMS`. Needs
`pip install '.[release]'`, a checkout without changes, and an environment with fpmonitor in it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRAS = ("audit", "encryption", "png", "private", "serve", "spark", "warehouse")  # for users


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def version_of(source: Path, *, rehearsed: bool) -> str:
    """Version of the project, after a look at every place that names it."""
    version = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named: str = version["version"]
    package = (source / "fpmonitor" / "version.py").read_text(encoding="utf-8")
    if f'__version__ = "{named}"' not in package:
        sys.exit(f"fpmonitor/version.py does not say {named}")
    changelog = (source / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+) \((.*)\)$", changelog, re.MULTILINE)
    if newest is None or newest[1] != named:
        sys.exit(f"CHANGELOG.md does not begin with {named}")
    if not rehearsed and not re.fullmatch(r"\d{4}-\d\d-\d\d", newest[2]):
        sys.exit(f"CHANGELOG.md: {named} has no date (YYYY-MM-DD), but ({newest[2]})")
    if git("tag", "--list", f"v{named}") and git("rev-parse", f"v{named}^0") != git(
        "rev-parse", "HEAD"
    ):
        sys.exit(f"the tag v{named} names another commit")
    return named


def build(folder: Path, moment: int) -> dict[str, bytes]:
    """The wheel and the sdist, by name, of the committed files laid out in a folder."""
    source = folder / "source"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(source, filter="data")
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(folder / "dist"),
        str(source),
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(moment)}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    built = {path.name: path.read_bytes() for path in (folder / "dist").iterdir()}
    return {
        name: with_fixed_headers(data, moment) if name.endswith(".gz") else data
        for name, data in built.items()
    }


def with_fixed_headers(sdist: bytes, moment: int) -> bytes:
    """The same files as a tar.gz sorted by name, without times and owners of this machine."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as given,
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=moment) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as fixed,
    ):
        for member in sorted(given.getmembers(), key=lambda member: member.name):
            member.mtime = moment
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() else 0o644
            member.pax_headers = {}
            fixed.addfile(member, given.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def contents(name: str, data: bytes) -> dict[str, bytes]:
    """Files in a wheel or in an sdist."""
    if name.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            return {entry: wheel.read(entry) for entry in wheel.namelist()}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = [member for member in tar.getmembers() if member.isfile()]
        return {member.name: tar.extractfile(member).read() for member in files}  # type: ignore[union-attr]


def check_contents(name: str, files: dict[str, bytes], version: str, traces: list[str]) -> None:
    """The metadata are valid, and no file names what is true of this machine alone."""
    [metadata] = [
        path for path in files if re.search(r"(dist-info/METADATA|^[^/]+/PKG-INFO)$", path)
    ]
    read = Metadata.from_email(files[metadata])
    if str(read.version) != version or read.description_content_type != "text/markdown":
        sys.exit(f"{name}: {metadata} does not describe {version}")
    for path, data in files.items():
        for trace in traces:
            if trace.encode() in data:
                sys.exit(f"{name}: {path} holds {trace}")


def bill_of_materials(python: str, source: Path, moment: int) -> bytes:
    """What fpmonitor needs, as installed in an environment: packages, versions, licences."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", python, "--output-reproducible"]
    done = subprocess.run(
        [*command, "--pyproject", str(source / "pyproject.toml")],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(moment)},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"no bill of materials of {python}:\n{done.stderr}")
    bill = json.loads(done.stdout)
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    stated = [*project["dependencies"], *(one for of in EXTRAS for one in extras[of])]
    named = {canonicalize_name(Requirement(one).name) for one in stated}
    refs = {one["bom-ref"]: canonicalize_name(one["name"]) for one in bill["components"]}
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    root = bill["metadata"]["component"]["bom-ref"]
    needs[root] = [ref for ref in needs[root] if refs.get(ref) in named]
    wanted, found = [root], set()
    while wanted:  # the environment also holds what makes and tries the release
        found.add(ref := wanted.pop())
        wanted += [one for one in needs.get(ref, []) if one not in found]
    bill["components"] = [one for one in bill["components"] if one["bom-ref"] in found]
    bill["dependencies"] = [{"ref": ref, "dependsOn": needs[ref]} for ref in needs if ref in found]
    if not bill["components"]:
        sys.exit(f"{python}: what fpmonitor needs is not installed there")
    return (json.dumps(bill, indent=1) + "\n").encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"))
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--environment", default=sys.executable, metavar="PYTHON")
    arguments = parser.parse_args()
    if git("status", "--porcelain"):
        sys.exit("the checkout has changes: what is built is the last commit")
    os.umask(0o022)  # archives hold the modes of files
    moment = int(git("log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / "one", Path(scratch) / "another" / "deeper"]
        first, second = (build(folder, moment) for folder in folders)
        version = version_of(folders[0] / "source", rehearsed=arguments.rehearse)
        traces = [scratch, str(ROOT), str(Path.home()) + "/"]
        bill = bill_of_materials(arguments.environment, folders[0] / "source", moment)
    if first != second:
        sys.exit("two builds of one commit differ: " + ", ".join(sorted(first)))
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, data in first.items():
        check_contents(name, contents(name, data), version, traces)
    sums = ""
    for name, data in sorted({**first, f"fpmonitor-{version}.cdx.json": bill}.items()):
        (arguments.output / name).write_bytes(data)
        sums += f"{hashlib.sha256(data).hexdigest()}  {name}\n"
    (arguments.output / "SHA256SUMS").write_text(sums, encoding="utf-8")
    print(sums, end="")


if __name__ == "__main__":
    main()
