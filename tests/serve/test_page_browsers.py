"""The snippet and the dashboard in real browsers: a page, a service, and what people see.

Needs Debian's `chromium` (driven by Playwright) and `firefox-esr` (driven by Marionette).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import re
import shutil
import threading
import time
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from fpmonitor.disclosure import Audience
from fpmonitor.monitor import Monitor
from fpmonitor.private.commands.page import sealing_lines
from fpmonitor.private.keys import SecretKeys
from fpmonitor.private.recipient import Recipient
from fpmonitor.private.services import shuffler_app
from fpmonitor.private.shuffler import Shuffler
from fpmonitor.private.study import Study, first_ask
from fpmonitor.private.tokens import token_of
from fpmonitor.serve.app import service_app
from fpmonitor.serve.config import ServeConfig
from fpmonitor.serve.keys import add_key
from fpmonitor.serve.snippet import KEY_HERE, page_lines, script_named
from fpmonitor.vocabulary import known_apis, randomised_in
from tests.firefox import SECONDS, Firefox, firefox
from tests.patience import patience, wait
from tests.served import DashboardService, routes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from starlette.requests import Request


pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
ASKED = ["Navigator.userAgent", "Screen.width"]
# Counts what is read, and what is sent, before anything else runs.
SPY = """<script>
window.reads = []; window.sends = [];
for (const [owner, members] of [[Navigator.prototype, ["userAgent", "languages", "hardwareConcurrency"]], [Screen.prototype, ["width"]]])
  for (const member of members) {
    const { get } = Object.getOwnPropertyDescriptor(owner, member);
    Object.defineProperty(owner, member, { configurable: true, get() { reads.push(member); return get.call(this); } });
  }
for (const [owner, member] of [[Navigator.prototype, "sendBeacon"], [window, "fetch"]]) {
  const real = owner[member];
  owner[member] = function (...given) { sends.push(member); return real.apply(this, given); };
}
</script>"""  # noqa: E501
# Reads a drawing of text and one of shapes in every way; digests, as values are long.
DRAW = """(() => {
  const hash = (parts) => Array.from(parts).reduce(
    (sum, part) => (sum * 31 + (part.codePointAt ? part.codePointAt(0) : part)) % 1000000007, 7);
  const surfaces = [[240, 60], [122, 110]].map(([width, height]) =>
    Object.assign(document.createElement("canvas"), { width, height }));
  const [text, shapes] = surfaces.map((surface) => surface.getContext("2d"));
  text.font = "11pt serif";
  text.fillText("Quick \\u{1f603} fox", 2, 20);
  shapes.fillStyle = "#f2f";
  shapes.arc(40, 50, 40, 0, 7);
  shapes.fill();
  window.blobs = [];
  const keep = async (blob, place) => {
    blobs[place] = hash(new Uint8Array(await blob.arrayBuffer()));
  };
  surfaces.forEach((surface, place) => {
    surface.toBlob((blob) => keep(blob, place));
    const copy = new OffscreenCanvas(surface.width, surface.height);
    copy.getContext("2d").drawImage(surface, 0, 0);
    copy.convertToBlob().then((blob) => keep(blob, 2 + place));
  });
  return JSON.stringify({
    "HTMLCanvasElement.toDataURL": surfaces.map((surface) => hash(surface.toDataURL())),
    "HTMLCanvasElement.toDataURL#jpeg": surfaces.map((surface) => hash(surface.toDataURL("image/jpeg"))),
    "CanvasRenderingContext2D.getImageData": [text, shapes].map((context) =>
      hash(context.getImageData(0, 0, 122, 60).data)),
    "Navigator.plugins": [hash(Array.from(navigator.plugins, (plugin) => plugin.name).join())],
    "Performance.memory#thumbmarkjs.jsHeapSizeLimit": [performance.memory?.jsHeapSizeLimit ?? 0],
  });
})()"""  # noqa: E501
PIXELS = """(() => {
  const size = { width: 122, height: 110 };
  const shapes = Object.assign(document.createElement("canvas"), size).getContext("2d");
  shapes.fillStyle = "#f2f";
  shapes.arc(40, 50, 40, 0, 7);
  shapes.fill();
  return Array.from(shapes.getImageData(0, 0, 122, 60).data).join();
})()"""
REPORT = "JSON.stringify({ reads, sends, stored: localStorage.length })"


class Browser(Protocol):
    """What the tests do with a browser."""

    def open(self, address: str) -> None: ...

    def run(self, expression: str) -> Any: ...

    def tab(self) -> AbstractContextManager[Browser]:
        """Open another tab of the same visitor, and close it in the end."""

    def offline(self) -> AbstractContextManager[None]:
        """Take the network away for the block."""


class Chromium:
    def __init__(self, page: Any) -> None:
        self.page = page

    def open(self, address: str) -> None:
        self.page.goto(address)

    def run(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    @contextmanager
    def tab(self) -> Iterator[Chromium]:
        page = self.page.context.new_page()
        yield Chromium(page)
        page.close()

    @contextmanager
    def offline(self) -> Iterator[None]:
        self.page.context.set_offline(True)
        yield
        self.page.context.set_offline(False)


@pytest.fixture(scope="module")
def launch_chromium() -> Iterator[Callable[[], Any]]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        yield lambda: playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )


@pytest.fixture(scope="module")
def one_chromium(launch_chromium: Callable[[], Any]) -> Iterator[Any]:
    with closing(launch_chromium()) as browser:
        yield browser


@pytest.fixture
def chromium(one_chromium: Any) -> Iterator[Chromium]:
    """A page of a new profile."""
    with closing(one_chromium.new_context()) as profile:
        yield Chromium(profile.new_page())


@pytest.fixture(scope="module")
def one_firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """The tests share its profile, but no site: each has ports of its own."""
    with firefox(tmp_path_factory.mktemp("firefox")) as browser:
        yield browser


@pytest.fixture(params=["chromium", "one_firefox"])
def either_browser(request: pytest.FixtureRequest) -> Browser:
    browser: Browser = request.getfixturevalue(request.param)
    return browser


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Serve an app; gives the number of its port."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait(lambda: server.started)
    try:
        yield str(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


class Service(DashboardService):
    """The dashboard and its scripts, and a collector that stores each beacon at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Monitor(folder / "d.duckdb", create=True, audience=Audience.OTHERS))
        self.seconds_to_answer = 0
        self.answers_arrive = True
        self.beacons: queue.Queue[list[dict[str, Any]]] = queue.Queue()
        self._folder = folder

    async def observations(self, request: Request) -> Response:
        path = self._folder / f"{time.monotonic_ns()}.jsonl"
        path.write_bytes(await request.body())
        await self.ask(lambda monitor: monitor.ingest([str(path)]))
        self.beacons.put([json.loads(line) for line in path.read_text().splitlines()])
        await asyncio.sleep(self.seconds_to_answer)
        # Without leave to read it a page sees no answer, as when the connection broke after all.
        leave = {"Access-Control-Allow-Origin": "*"} if self.answers_arrive else {}
        return Response(status_code=202, headers=leave)

    def app(self) -> Starlette:
        collect = Route("/v1/observations", self.observations, methods=["POST"])
        return Starlette(routes=[collect, *routes(self)])


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = Service(tmp_path)
    log = tmp_path / "crowd.jsonl"
    users = [{"user": f"u{i}", "api": api, "value": "common"} for i in range(30) for api in ASKED]
    log.write_text("".join(json.dumps(user) + "\n" for user in users), encoding="utf-8")
    service.monitor.ingest([str(log)])
    # All of the crowd are alike, which is no evidence by itself.
    service.decision = service.monitor.decide(
        k=2, budget=0.5, candidates=ASKED, assume=ASKED, setting="sample"
    )
    return service


def page_of(
    port: str, apis: list[str], *, consent: str = "true", before: str = SPY, key: str = "key"
) -> Starlette:
    """A site of its own origin with the snippet; its title tells the outcome."""
    lines = page_lines(f"http://localhost:{port}", apis, script_named("collector.js"))
    return site_with(lines.replace(KEY_HERE, key), consent, before)


def site_with(lines: str, consent: str = "true", before: str = SPY) -> Starlette:
    lines = lines.replace("=> false, //", f"=> {consent}, //")
    lines = re.sub(r"\}\);\n</script>", "}).then((done) => { document.title = "
                   "JSON.stringify(done); });\n</script>", lines)  # fmt: skip
    text = f'<!doctype html><link rel="icon" href="data:,"><title></title>{before}{lines}'

    async def answer(request: Request) -> Response:
        del request
        return HTMLResponse(text)

    return Starlette(routes=[Route("/", answer)])


def page_text(browser: Browser) -> str:
    text: str = browser.run("document.body.innerText")
    return text


def outcome_of(browser: Browser, address: str) -> Any:
    browser.open(address)
    return json.loads(wait(lambda: browser.run("document.title")))


def check_the_way_of_a_record(browser: Browser, service: Service) -> None:
    with serving(service.app()) as port, serving(page_of(port, ASKED)) as site:
        dashboard = f"http://localhost:{port}/"
        browser.open(dashboard)
        text = page_text(browser)
        assert "Among the 30 observed it is at most 3.34 %" in text
        done = outcome_of(browser, f"http://127.0.0.1:{site}/")
        assert done == {"outcome": "sent", "records": 2, "unread": []}
        records = service.beacons.get(timeout=patience(SECONDS))
        assert [record["api"] for record in records] == ASKED
        assert records[0]["value"] == browser.run("navigator.userAgent")
        browser.open(dashboard)
        assert "31" in browser.run("document.querySelector('.counts').innerText")
        assert "Among the 31 observed it is at most 3.23 %" in browser.run(
            "document.body.innerText"
        )
        assert browser.run("document.querySelectorAll('#history-table tbody tr').length") == 2
        for _ in ASKED:
            browser.run("document.querySelector('#explorer input:checked').click()")
        answer = "document.querySelector('#answer').innerText"
        wait(lambda: "nobody is exposed" in browser.run(answer))
        browser.run("document.querySelector('#explorer input').click()")
        wait(lambda: "3.23 %" in browser.run(answer))
        assert browser.run("document.querySelector('#answer .verdict.allow') !== null")


def check_that_records_wait_until_they_arrive_once(browser: Browser, service: Service) -> None:
    with serving(service.app()) as port, serving(page_of(port, ASKED)) as site:
        assert outcome_of(browser, f"http://127.0.0.1:{site}/")["outcome"] == "sent"
        assert len(service.beacons.get(timeout=patience(SECONDS))) == 2
        here = f"http://localhost:{port}/"
        for place, consent, network, expected in (
            ("http://localhost:1/", "true", nullcontext(), ("undelivered", 0)),
            (here, "true", browser.offline(), ("undelivered", 0)),
            (here, "false", nullcontext(), ("consent", 0)),
            (here, "true", nullcontext(), ("sent", 3)),
            (here, "true", nullcontext(), ("sent", 1)),
        ):
            browser.run("document.title = ''")
            with network:
                browser.run(
                    f"void fpmonitor.collect({{ endpoint: '{place}v1/observations?key=key', apis: "
                    f"['Screen.width'], consent: () => {consent} }}).then((done) => "
                    "{ document.title = JSON.stringify(done); })"
                )
                done = json.loads(wait(lambda: browser.run("document.title")))
            assert (done["outcome"], done["records"]) == expected
        assert [len(service.beacons.get(timeout=patience(SECONDS))) for _ in range(2)] == [3, 1]
        browser.run("document.title = ''")
        browser.run(
            "void fpmonitor.collect({ endpoint: 'http://localhost:1/v1/observations?key=key', "
            "apis: ['Screen.width'], consent: () => true }).then(() => "
            "{ document.title = 'kept'; })"
        )
        wait(lambda: browser.run("document.title") == "kept")
        # Pages go before the service answers: by a reload, by a link, and with their tab.
        service.seconds_to_answer = 1
        browser.open("about:blank")
        browser.open(f"http://127.0.0.1:{site}/")
        assert len(service.beacons.get(timeout=patience(SECONDS))) == 3
        browser.run("void location.reload()")
        assert len(service.beacons.get(timeout=patience(SECONDS))) == 2
        browser.open("about:blank")
        with browser.tab() as tab:
            tab.open(f"http://127.0.0.1:{site}/")
            assert len(service.beacons.get(timeout=patience(SECONDS))) == 2
        service.seconds_to_answer = 0
        assert outcome_of(browser, f"http://127.0.0.1:{site}/")["records"] == 2
        assert len(service.beacons.get(timeout=patience(SECONDS))) == 2
        assert service.beacons.empty()


def check_nothing_happens_without_leave(
    browser: Browser, service: Service, *, consent: str, before: str, outcome: str
) -> None:
    apis = [*ASKED, "Navigator.languages", "Navigator.hardwareConcurrency"]
    with serving(service.app()) as port:
        with serving(page_of(port, apis, before=SPY)) as site:
            assert outcome_of(browser, f"http://127.0.0.1:{site}/")["outcome"] == "sent"
            seen = json.loads(browser.run(REPORT))
            assert set(seen["reads"]) == {"userAgent", "width", "languages", "hardwareConcurrency"}
            assert seen["sends"] == ["fetch"]
            service.beacons.get(timeout=patience(SECONDS))
        with serving(page_of(port, apis, consent=consent, before=before + SPY)) as site:
            done = outcome_of(browser, f"http://127.0.0.1:{site}/")
            assert done == {"outcome": outcome, "records": 0, "unread": []}
            assert json.loads(browser.run(REPORT)) == {"reads": [], "sends": [], "stored": 0}
            assert service.beacons.empty()


def test_a_page_in_chromium_reaches_the_dashboard(service: Service, chromium: Chromium) -> None:
    complaints: list[str] = []
    chromium.page.on("console", lambda message: complaints.append(message.text))
    chromium.page.on("pageerror", lambda error: complaints.append(str(error)))
    check_the_way_of_a_record(chromium, service)
    assert complaints == []
    check_that_records_wait_until_they_arrive_once(chromium, service)


def test_nothing_hinders_readers_of_the_dashboard(
    service: Service, hindrances: Callable[[Any, str], Iterator[str]], one_chromium: Any
) -> None:
    long_name = "WebGLRenderingContext.getParameter#UNMASKED_VENDOR_WEBGL"
    records = [{"user": f"u{i}", long_name: i % 2, "Screen.width": i % 3} for i in range(300)]
    service.monitor.ingest(pl.DataFrame(records))
    candidates = [*ASKED, long_name]
    service.decision = service.monitor.decide(k=2, budget=0.5, candidates=candidates)
    with serving(service.app()) as port:
        found = hindrances(one_chromium, f"http://localhost:{port}/")
        assert list(found) == []


@pytest.mark.long
def test_an_open_dashboard_keeps_up_by_itself(
    service: Service, chromium: Chromium, one_chromium: Any
) -> None:
    with serving(service.app()) as port, serving(page_of(port, ASKED)) as site:
        chromium.open(f"http://localhost:{port}/")
        counts = "document.querySelector('.counts').innerText"
        assert "30" in chromium.run(counts)
        visitor = Chromium(one_chromium.new_page())
        service.seconds_to_answer = 1
        visitor.open(f"http://127.0.0.1:{site}/")
        assert len(service.beacons.get(timeout=patience(SECONDS))) == 2
        visitor.page.close()
        wait(lambda: "31" in chromium.run(counts))
        assert service.beacons.empty(), "a closed tab sends nothing twice"


@pytest.mark.long
def test_a_page_in_firefox_reaches_the_dashboard(service: Service, one_firefox: Firefox) -> None:
    check_the_way_of_a_record(one_firefox, service)
    check_that_records_wait_until_they_arrive_once(one_firefox, service)


def test_an_answer_that_was_lost_stores_nothing_twice(
    service: Service, either_browser: Browser
) -> None:
    """The records are kept by the service, and told again by the next page."""
    with serving(service.app()) as port, serving(page_of(port, ASKED)) as site:
        address = f"http://127.0.0.1:{site}/"
        visits = service.monitor.population().snapshot.visits
        service.answers_arrive = False
        lost = outcome_of(either_browser, address)
        assert (lost["outcome"], lost["records"]) == ("undelivered", 0)
        first = service.beacons.get(timeout=patience(SECONDS))
        assert service.monitor.population().snapshot.visits == visits + 1
        service.answers_arrive = True
        either_browser.open("about:blank")
        told = outcome_of(either_browser, address)
        assert (told["outcome"], told["records"]) == ("sent", 4)
        again = service.beacons.get(timeout=patience(SECONDS))
        assert again[:2] == first
        assert service.monitor.population().snapshot.visits == visits + 2
        [batch] = [one for one in service.monitor.batches() if one.duplicates]
        assert (batch.stored, batch.duplicates) == (2, 2)


def test_page_views_and_tabs_of_a_visitor_are_one_session(
    service: Service, either_browser: Browser
) -> None:
    with serving(service.app()) as port, serving(page_of(port, ASKED)) as site:
        address = f"http://127.0.0.1:{site}/"
        for _ in range(2):
            assert outcome_of(either_browser, address)["outcome"] == "sent"
        with either_browser.tab() as tab:
            assert outcome_of(tab, address)["outcome"] == "sent"
        either_browser.run("fpmonitor.forget()")
        assert outcome_of(either_browser, address)["outcome"] == "sent"
        views = [service.beacons.get(timeout=patience(SECONDS)) for _ in range(4)]
    told = [{(one["user"], one["session_id"], one["visit_id"]) for one in view} for view in views]
    assert [len(names) for names in told] == [1] * 4, "all records of a view name the same"
    users, sessions, visits = zip(*(names.pop() for names in told), strict=True)
    assert users[0] == users[1] == users[2] != users[3]
    assert sessions[0] == sessions[1] == sessions[2] != sessions[3]
    assert len(set(visits)) == 4
    assert not {*users} & {*sessions}, "a session is no user"
    assert service.monitor.population().snapshot.visits == 30 + 4


GPC = """<script>Object.defineProperty(Navigator.prototype, "globalPrivacyControl",
  { get: () => true });</script>"""


def test_nothing_is_read_or_sent_without_leave_in_chromium(
    service: Service, chromium: Chromium
) -> None:
    check_nothing_happens_without_leave(
        chromium, service, consent="new Promise((yes) => setTimeout(yes, 50, false))",
        before="", outcome="consent",
    )  # fmt: skip
    check_nothing_happens_without_leave(
        chromium, service, consent="true", before=GPC, outcome="gpc"
    )


@pytest.mark.long
def test_nothing_is_read_or_sent_when_firefox_says_no(service: Service, tmp_path: Path) -> None:
    """By Firefox's own setting for Global Privacy Control."""
    refusing = 'user_pref("privacy.globalprivacycontrol.enabled", true);\n'
    with (
        firefox(tmp_path, refusing) as browser,
        serving(service.app()) as port,
        serving(page_of(port, ASKED)) as site,
    ):
        done = outcome_of(browser, f"http://127.0.0.1:{site}/")
        assert browser.run("navigator.globalPrivacyControl") is True
        assert done == {"outcome": "gpc", "records": 0, "unread": []}
        assert json.loads(browser.run(REPORT)) == {"reads": [], "sends": [], "stored": 0}
        assert service.beacons.empty()


# Whether the page has what an API names: its interface, and there the member.
HAS = """(names) => names.filter((name) => {
  const [owner, member] = name.split(/[.#]/);
  const found = owner == "Window" ? window : owner == "Notification" ? window[owner]
    : window[owner]?.prototype;
  return found !== undefined && member in found;
})"""


@pytest.mark.long
def test_browsers_answer_for_the_vocabulary(service: Service, either_browser: Browser) -> None:
    """Every API that a page can read gives a record, and the shaped ones give values.

    `undefined` says that the browser lacks the API, never that it was not read.
    """
    browser = either_browser
    shaped = [
        *("HTMLCanvasElement.toDataURL#fpmonitor", "OfflineAudioContext.startRendering#fpmonitor"),
        *("Navigator.plugins#fpmonitor", "BaseAudioContext.sampleRate", "css:color", "css:width"),
        *("Intl.DateTimeFormat.resolvedOptions#timeZone", "css:prefers-color-scheme"),
        *("Window.devicePixelRatio", "Date.getTimezoneOffset", "css:display-mode", "css:grid"),
    ]
    made_up = [
        *("css:device-posture", "css:no-such-feature", "css:shape", "css:nav-controls"),
        *("WebGLRenderingContext.getParameter#NO_SUCH_NUMBER", "css:horizontal-viewport-segments"),
        *("WebGLRenderingContext.getParameter#MAX_TEXTURE_MAX_ANISOTROPY_EXT",),
        *("NavigatorUAData.getHighEntropyValues#noSuchHint", "css:-moz-device-pixel-ratio"),
        *("Intl.DisplayNames.resolvedOptions#locale", "Intl.Locale.resolvedOptions#hourCycles"),
        "Intl.DateTimeFormat.resolvedOptions#hourCycle",
    ]
    apis = [*shaped, *made_up, *(name for name in known_apis() if name not in shaped)]
    with serving(service.app()) as port, serving(page_of(port, apis, before="")) as site:
        done = outcome_of(browser, f"http://localhost:{site}/")
        assert done["outcome"] == "sent"
        records: dict[str, Any] = {}
        while len(records) < done["records"]:
            records |= {
                record["api"]: record for record in service.beacons.get(timeout=patience(SECONDS))
            }
        assert {records[api]["status"] for api in shaped} == {"value"}
        canvas = records["HTMLCanvasElement.toDataURL#fpmonitor"]["value"]
        assert re.fullmatch(r"sha256:[0-9a-f]{32}:\d+", canvas)
        assert len(records) > 120
        failed = {api for api, record in records.items() if record["status"] == "error"}
        assert failed <= {"Intl.Locale.resolvedOptions#hourCycles"}
        missing = [api for api, record in records.items() if record["status"] == "undefined"]
        assert browser.run(f"({HAS})({json.dumps(missing)})") == []
        assert not any(api.startswith(("css:", "Intl.")) for api in missing)
        assert records["Intl.DisplayNames.resolvedOptions#locale"]["status"] == "value"
        unread = set(done["unread"])
        assert unread >= {"css:system-color", "css:no-such-feature", made_up[4], made_up[-1]}


@pytest.mark.long
def test_a_record_goes_from_a_page_through_the_service_to_the_dashboard(
    either_browser: Browser, service: Service, tmp_path: Path
) -> None:
    assert service.decision is not None
    decision = tmp_path / "decision.json"
    decision.write_text(json.dumps(service.decision.to_json()))
    service.monitor.close()
    config = ServeConfig(
        db=tmp_path / "d.duckdb", decision=decision, origins=("*",), flush_seconds=0.3
    )
    key = add_key(config.keys_file, "write", "shop")
    browser = either_browser
    with (
        serving(service_app(config)) as port,
        serving(page_of(port, ASKED, key=key)) as site,
    ):
        address = f"http://localhost:{port}/"
        browser.open(address)
        assert "Among the 30 observed it is at most 3.34 %" in browser.run(
            "document.body.innerText"
        )
        done = outcome_of(browser, f"http://127.0.0.1:{site}/")
        assert done == {"outcome": "sent", "records": 2, "unread": []}

        def has_arrived() -> bool:
            browser.open(address)
            return "Among the 31 observed it is at most 3.23 %" in browser.run(
                "document.body.innerText"
            )

        wait(has_arrived)
    with Monitor(tmp_path / "d.duckdb") as monitor:
        sources = {row[3] for row in monitor.observations()}
    assert "shop" in sources


def stable_apis() -> list[str]:
    """Names of the vocabulary whose values do not change from one page to the next."""
    shapes = re.compile(r"(Navigator|Screen|NavigatorUAData|Intl|css|WebGLRendering\w+)[.:]")
    found = [name for name in known_apis() if shapes.match(name)][:120]
    return sorted([*found, "HTMLCanvasElement.toDataURL#fpmonitor", "http:user-agent"])


def test_sealed_answers_go_from_a_page_through_the_shuffler_to_the_curator(
    either_browser: Browser, service: Service, tmp_path: Path
) -> None:
    """The curator counts what the same browser's ingested record would be counted as."""
    apis = stable_apis()
    study = Study(
        name="t", apis=tuple(apis), population=1000, k=2, budget=0.5, minimum_batch=2,
        report_bytes=8192,
    )  # fmt: skip
    ask = first_ask(study)
    shuffler = Shuffler(tmp_path / "shuffler.db", study, SecretKeys.generate("shuffler"))
    curator = Recipient(tmp_path / "curator.db", study, SecretKeys.generate("curator"))
    shuffler.add_ask(ask)
    curator.add_ask(ask)
    browser = either_browser
    with (
        serving(service.app()) as port,
        serving(shuffler_app(shuffler, password="t", origins=["*"])) as gate,
        serving(page_of(port, apis, before="")) as plain,
    ):
        lines = sealing_lines(
            f"http://localhost:{port}", f"http://127.0.0.1:{gate}", study, ask,
            shuffler_keys=shuffler.ring.configs, recipient_keys=curator.ring.configs,
        )  # fmt: skip
        with serving(site_with(lines)) as site:
            address = f"http://127.0.0.1:{site}/"
            for outcome, uploads in (("sent", len(apis)), ("answered", 0)):
                done = outcome_of(browser, address)
                assert (done["outcome"], done["uploads"]) == (outcome, uploads)
            seen = json.loads(browser.run(REPORT))
            assert (seen["sends"], seen["stored"]) == ([], 1)
            browser.run("localStorage.clear()")
            assert outcome_of(browser, address)["outcome"] == "sent"
            assert set(json.loads(browser.run(REPORT))["sends"]) == {"fetch"}
        assert outcome_of(browser, f"http://127.0.0.1:{plain}/")["outcome"] == "sent"
        service.beacons.get(timeout=patience(SECONDS))
    shuffler.close_ask(ask.id)
    for batch in shuffler.unsent():
        assert curator.take(shuffler.batch(batch)).refused == {}
    rows = service.monitor.observations()
    visitor = max(row[0] for row in rows)
    held = {row[1]: token_of(row[2], row[4]) for row in rows if row[0] == visitor}
    assert len(held) > 60
    assert curator.counts(ask) == {(api,): {(held.get(api, "absent"),): 2} for api in apis}


def drawn(browser: Browser, address: str) -> dict[str, list[int]]:
    """What each way of reading gives, digests."""
    browser.open(address)
    found: dict[str, list[int]] = json.loads(browser.run(DRAW))
    wait(lambda: browser.run("Object.keys(blobs).length") == 4)
    blobs = json.loads(browser.run("JSON.stringify(blobs)"))
    return found | {
        "HTMLCanvasElement.toBlob": blobs[:2],
        "OffscreenCanvas.convertToBlob": blobs[2:],
    }


def changed_between(sessions: list[dict[str, list[int]]]) -> set[str]:
    """What differs in every part between all sessions; the rest is the same in all."""
    ways = {way: [seen[way] for seen in sessions] for way in sessions[0]}
    changed = {way for way, seen in ways.items() if seen[0] != seen[1]}
    for way, seen in ways.items():
        for part in zip(*seen, strict=True):
            assert len(set(part)) == (len(sessions) if way in changed else 1), way
    return changed


@pytest.mark.long
def test_firefox_draws_anew_what_the_vocabulary_says_and_nothing_else(
    service: Service, tmp_path: Path
) -> None:
    sessions, version = [], 0
    drawing, of_the_snippet = "HTMLCanvasElement.toDataURL#fpmonitor", []
    with (
        serving(site_with("")) as site,
        serving(service.app()) as port,
        serving(page_of(port, [drawing], before="")) as page,
    ):
        for _ in range(2):
            with firefox(tmp_path) as browser:
                sessions.append(drawn(browser, f"http://127.0.0.1:{site}/"))
                version = int(browser.run("/Firefox.(\\d+)/.exec(navigator.userAgent)[1]"))
                # Within a session the value stays: visits of one session come back with it.
                assert drawn(browser, f"http://127.0.0.1:{site}/?again") == sessions[-1]
                assert outcome_of(browser, f"http://127.0.0.1:{page}/")["outcome"] == "sent"
            [record] = service.beacons.get(timeout=patience(SECONDS))
            of_the_snippet.append(record["value"])
    assert randomised_in(drawing)["firefox"].since == 153
    assert len({*of_the_snippet}) == (2 if version >= 153 else 1)
    said = {
        way
        for way in sessions[0]
        if (entry := randomised_in(way).get("firefox")) is not None
        and version >= entry.since
        and (entry.until is None or version <= entry.until)
    }
    assert said == changed_between(sessions)


@pytest.mark.long
def test_page_views_of_one_session_of_firefox_take_no_mask_away(
    service: Service, tmp_path: Path
) -> None:
    """Its canvas stays the same within a session, in all of its tabs, and changes with the next."""
    drawing = "HTMLCanvasElement.toDataURL#fpmonitor"
    apis = [drawing, "Navigator.userAgent"]
    with serving(service.app()) as port, contextlib.ExitStack() as sites:
        # Sites of their own know the browser by names of their own: users.
        ports = [sites.enter_context(serving(page_of(port, apis))) for _ in range(4)]
        for _ in range(2):
            with firefox(tmp_path) as browser:
                for site in (*ports, *ports):
                    assert outcome_of(browser, f"http://127.0.0.1:{site}/")["outcome"] == "sent"
                with browser.tab() as tab:
                    for site in ports:
                        assert outcome_of(tab, f"http://127.0.0.1:{site}/")["outcome"] == "sent"
                if int(browser.run("/Firefox.(\\d+)/.exec(navigator.userAgent)[1]")) < 153:
                    pytest.skip("this Firefox draws nothing anew")
            assert service.monitor.population().masked([drawing], 2) == (drawing,)
    assert service.monitor.population().snapshot.visits == 30 + 2 * 12


@pytest.mark.long
def test_protection_that_firefox_users_turn_on_draws_pixels_anew(tmp_path: Path) -> None:
    # Not in the vocabulary: a log does not tell who did.
    preference = 'user_pref("privacy.resistFingerprinting", true);\n'
    sessions = []
    with serving(site_with("")) as site:
        for _ in range(2):
            with firefox(tmp_path, preference) as browser:
                browser.open(f"http://127.0.0.1:{site}/")
                # Pixels alone: with blobs, one session of 24 never answers (Firefox 153).
                sessions.append(browser.run(PIXELS))
    assert sessions[0] != sessions[1]
    assert "firefox" not in randomised_in("CanvasRenderingContext2D.getImageData")


@pytest.mark.long
def test_chromium_draws_nothing_anew(launch_chromium: Callable[[], Any]) -> None:
    with serving(site_with("")) as site:
        sessions = []
        for _ in range(2):
            with closing(launch_chromium()) as browser:
                page = Chromium(browser.new_page())
                sessions.append(drawn(page, f"http://127.0.0.1:{site}/"))
    assert changed_between(sessions) == set()
    assert not any("chromium" in randomised_in(way) for way in sessions[0])
