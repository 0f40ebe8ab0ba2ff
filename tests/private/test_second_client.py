"""docs/private-bytes.md suffices to write a client: one in JavaScript has none of our code."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fpmonitor.private.folder import RoleFolder
from fpmonitor.private.study import CollectionRequest
from tests.patience import wait
from tests.piloted import APIS, Serving, counts, free_ports, perform, user

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = Path(__file__).with_name("second_client.mjs")
NODE = shutil.which("node")
MODULES = Path(os.environ.get("FPMONITOR_NODE_MODULES", ""))
USERS = 60

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(
        NODE is None or not (MODULES / "@hpke" / "core").is_dir(),
        reason="needs Node.js, and @hpke/core in FPMONITOR_NODE_MODULES",
    ),
]


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a pilot whose three services run."""
    folder = tmp_path_factory.mktemp("second")
    with contextlib.chdir(folder):
        perform(
            f"fpmonitor private init pilot --apis {','.join(APIS)} --population 20000 --budget 0.1 "
            f"--minimum-batch 50 --port {free_ports()}"
        )
        serving = Serving(Path("pilot"), services=3)
        yield folder / "pilot"
        serving.stop()


def test_a_client_written_from_the_page_is_counted_like_ours(pilot: Path) -> None:
    shutil.copy(CLIENT, pilot)
    (pilot / "node_modules").symlink_to(MODULES)
    curator = RoleFolder.of(pilot, "curator")
    users = [user(number) for number in range(USERS)]
    given = {
        "shuffler": curator.address("shuffler"),
        "recipients": {"curator": curator.address("curator")},
        "users": users,
    }
    assert NODE is not None
    done = subprocess.run(
        [NODE, CLIENT.name], cwd=pilot, input=json.dumps(given), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"accepted": USERS * len(APIS), "refused": {}}
    perform(f"fpmonitor private close {pilot / 'round-1.json'} --folder {pilot}")
    first = CollectionRequest.read(pilot / "round-1.json")
    wait(lambda: sum(counts(pilot, "curator", first)[(APIS[0],)].values()) == USERS)
    assert counts(pilot, "curator", first) == {
        (api,): Counter((f"={one[api]}",) for one in users) for api in APIS
    }
