"""The page snippet as it is served, and the lines of HTML that put it into a page."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from fpmonitor.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

SEALED = "collector-sealed.js"
SCRIPTS = ("collector.js", "collector-ldp.js", SEALED)
KEY_HERE = "YOUR-WRITE-KEY"


@dataclass(frozen=True, slots=True)
class Script:
    """A built script.

    Attributes
    ----------
    name
        One of `SCRIPTS`.
    content
        UTF-8 bytes.
    """

    name: str
    content: bytes

    @property
    def integrity(self) -> str:
        """Value of the attribute `integrity` (W3C Subresource Integrity), SHA-384."""
        digest = hashlib.sha384(self.content).digest()
        return f"sha384-{base64.b64encode(digest).decode()}"

    @property
    def version(self) -> str:
        """First 16 hexadecimal digits of its SHA-256: names this content in an address."""
        return hashlib.sha256(self.content).hexdigest()[:16]

    @property
    def path(self) -> str:
        """Address at the service, which may be cached without a time limit."""
        return f"/v1/{self.name}?v={self.version}"


@cache
def script_named(name: str) -> Script:
    """Return a script by its name.

    Raises
    ------
    InputError
        There is no such script.
    """
    if name not in SCRIPTS:
        raise InputError(f"no script {name!r}", hint=f"scripts: {', '.join(SCRIPTS)}")
    built = resources.files("fpmonitor.collectors") / "browser" / name
    return Script(name, built.read_bytes())


def page_lines(address: str, apis: Sequence[str], script: Script) -> str:
    """Return HTML that loads a script from a service and asks for some APIs after consent.

    `address` is that of the service, `https://host[:port]`.
    """
    endpoint = for_script(f"{address.rstrip('/')}/v1/observations?key={KEY_HERE}")
    return f"""{script_element(address, script)}
<script>
fpmonitor.collect({{
  endpoint: {endpoint},
  apis: {for_script(list(apis))},
  consent: () => false, // replace: true, or a promise of true, once the visitor has agreed
}});
</script>
"""


def script_element(address: str, script: Script) -> str:
    """Return the element that loads a script from a service, with its integrity."""
    source = html.escape(address.rstrip("/") + script.path)
    return f'''<script src="{source}"
  integrity="{script.integrity}" crossorigin="anonymous"></script>'''


def for_script(content: object) -> str:
    """Return JSON that cannot end a script element."""
    return json.dumps(content).replace("<", "\\u003c")
