"""The page snippet as it is served, and the lines of HTML that put it into a page."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fpmonitor.errors import InputError
from fpmonitor.vocabulary import entry_of, is_known

SEALED = "collector-sealed.js"
RANDOMISING = "collector-ldp.js"
SCRIPTS = ("collector.js", RANDOMISING, SEALED)
KEY_HERE = "YOUR-WRITE-KEY"
OWN_FILE = "// Under a content security policy, put this into a script file of your own.\n"
_PLAN_HERE = '{ mechanism: "grr", epsilon: 1, values: [/* your values, and */ "other"] }'
# As `readerOf` of the snippet decides; a test compares the two over the whole vocabulary.
_CALLED = re.compile(
    r"""Date\.getTimezoneOffset|Navigator\.javaEnabled
    |(HTMLCanvasElement\.toDataURL|MediaDevices\.enumerateDevices|Navigator\.(mimeTypes|plugins)
      |OfflineAudioContext\.startRendering|SpeechSynthesis\.getVoices)[#]fpmonitor
    |(FontFaceSet\.check|HTMLMediaElement\.canPlayType|NavigatorUAData\.getHighEntropyValues
      |Permissions\.query|Window\.matchMedia|CSS\.supports|Media(Recorder|Source)\.isTypeSupported
      |WebGL2?RenderingContext\.getParameter)[#].+
    |WebGL2?RenderingContext\.get(SupportedExtensions|ContextAttributes)
    |Intl\.\w+\.resolvedOptions([#](?!currency).+)?  # there is none where none was asked for
    |css:(?!system-color|.*(ratio|resolution))[^#]+""",
    re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    r"(AudioContext|AudioDestinationNode|BaseAudioContext|BatteryManager|Document|GPUAdapterInfo"
    r"|History|Navigator|NavigatorUAData|NetworkInformation|Notification|Performance|Screen"
    r"|ScreenOrientation|VisualViewport|Window)\.[a-z][^#]*"
)


@dataclass(frozen=True, slots=True)
class Script:
    """A built script."""

    name: str  # One of `SCRIPTS`.
    content: bytes  # UTF-8 bytes.

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

    Raises:
        InputError: There is no such script.
    """
    if name not in SCRIPTS:
        raise InputError(f"no script {name!r}", hint=f"scripts: {', '.join(SCRIPTS)}")
    built = resources.files("fpmonitor.collectors") / "browser" / name
    return Script(name, built.read_bytes())


def page_lines(address: str, apis: Sequence[str], script: Script) -> str:
    """Return HTML that loads a script from a service and asks for some APIs after consent.

    `address` is that of the service, `https://host[:port]`. A script that randomises gets a plan
    for each API, which sends nothing until somebody writes the values.
    """
    endpoint = for_script(f"{address.rstrip('/')}/v1/observations?key={KEY_HERE}")
    wanted = f"apis: {for_script(list(apis))}"
    if script.name == RANDOMISING:
        plans = "".join(f"    {for_script(api)}: {_PLAN_HERE},\n" for api in apis)
        wanted = f"randomised: {{\n{plans}  }}"
    return f"""{script_element(address, script)}
<script>
{OWN_FILE}fpmonitor.collect({{
  endpoint: {endpoint},
  {wanted},
  consent: () => false, // replace: true, or a promise of true, once the visitor has agreed
}});
</script>
"""


def unreadable(apis: Iterable[str]) -> list[str]:
    """Return the APIs that the snippet never reads, whatever the browser; in their order."""
    return [api for api in apis if not (_CALLED.fullmatch(api) or _is_attribute(api))]


def _is_attribute(api: str) -> bool:
    return bool(_ATTRIBUTE.fullmatch(api)) and not (
        is_known(api) and entry_of(api).kind == "method"
    )


def script_element(address: str, script: Script) -> str:
    """Return the element that loads a script from a service, with its integrity."""
    source = html.escape(address.rstrip("/") + script.path)
    return f'''<script src="{source}"
  integrity="{script.integrity}" crossorigin="anonymous"></script>'''


def for_script(content: object) -> str:
    """Return JSON that cannot end a script element."""
    return json.dumps(content).replace("<", "\\u003c")
