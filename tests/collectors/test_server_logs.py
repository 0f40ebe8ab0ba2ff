"""Logs of web servers, proxies, load balancers and content networks are known by their lines."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest

from fpmonitor.cli import run
from tests.asked import answer_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0"
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/142.0.0.0 Safari/537.36"
)
AGENTS = (FIREFOX, CHROME)
VISITORS = 24  # each with two requests


def plus(text: str) -> str:
    return text.replace(" ", "+")


def percent(text: str) -> str:
    return text.replace(" ", "%20").replace("%2520", "%20")


def clf(form: str) -> Callable[[int, str], str]:
    """Lines that begin as the combined format; `form` is what comes behind the size."""

    def line(i: int, agent: str) -> str:
        return (
            f'192.0.2.{i} - - [01/Mar/2026:10:00:{i:02} +0000] "GET /a?b=1 HTTP/1.1" 200 9'
            + form.format(agent)
        )

    return line


def before(prefix: str, line: Callable[[int, str], str]) -> Callable[[int, str], str]:
    return lambda i, agent: prefix + line(i, agent)


COMBINED = clf(' "https://example.org/" "{}"')
TEXT: dict[str, Callable[[int, str], str]] = {
    "nginx combined": COMBINED,
    "nginx.org main": clf(' "-" "{}" "-"'),
    "nginx with times": clf(' "-" "{}" rt=0.004 uct="0.000" urt="0.004, 0.001"'),
    "ingress-nginx": clf(
        ' "-" "{}" 310 0.012 [default-web-80] [] 10.0.0.1:80, 10.0.0.2:80 612, 9 0.01 200, 502 ab'
    ),
    "Traefik": clf(' "-" "{}" 17 "web@docker" "http://10.0.0.1:80" 1ms'),
    "Apache with cookies": clf(' "-" "{}" "session=abc; theme=dark"'),
    "Apache vhost_combined": before("www.example.com:443 ", COMBINED),
    "nginx by syslog": before("<190>Mar  1 10:00:00 web nginx: ", COMBINED),
    "nginx of a container": before("2026-03-01T10:00:00.5Z stdout F ", COMBINED),
    "Apache with a user": lambda i, agent: COMBINED(i, agent).replace("- - [", "- John Doe ["),
    "Apache behind proxies": lambda i, agent: COMBINED(i, agent).replace(
        " - -", ", 10.0.0.1 - -", 1
    ),
    "IPv6": lambda i, agent: COMBINED(i, agent).replace("192.0.2.", "2001:db8::"),
    "names of hosts": lambda i, agent: COMBINED(i, agent).replace("192.0.2.", "host-"),
    "Caddy at a terminal": lambda i, agent: (
        f"2026/03/01 10:00:{i:02}.123\tINFO\thttp.log.access\thandled request\t"
        + json.dumps({name: JSON["Caddy"](i, agent)[name] for name in ("request", "status")})
    ),
    "Caddy by syslog": before(
        "<190>Mar  1 10:00:00 web caddy[7]: @cee: ",
        lambda i, agent: json.dumps(JSON["Caddy"](i, agent)),
    ),
    "Envoy": lambda i, agent: (
        f'[2026-03-01T10:00:{i:02}.123Z] "GET / HTTP/1.1" 200 - 0 9 1 0 "192.0.2.{i},10.0.0.1" '
        f'"{agent}" "3f1c" "www.example.com" "10.0.0.1:80"'
    ),
    "Istio": lambda i, agent: (
        f'[2026-03-01T10:00:{i:02}.123Z] "GET / HTTP/1.1" 200 - via_upstream - "-" 0 9 1 0 '
        f'"192.0.2.{i}" "{agent}" "3f1c" "www.example.com" "10.0.0.1:80" inbound|80|| 127.0.0.6:1 -'
    ),
    "HAProxy": lambda i, agent: (
        f"Mar  1 10:00:00 lb haproxy[7]: 192.0.2.{i}:{33000 + i} [01/Mar/2026:10:00:{i:02}.655] "
        "http-in web/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "
        f'{{www.example.com|{agent.replace(";", "#3B")}|de}} {{}} "GET /index.html HTTP/1.1"'
    ),
    "Amazon ALB": lambda i, agent: (
        f"h2 2026-03-01T10:00:{i:02}.000000Z app/lb/1 192.0.2.{i}:{2000 + i} 10.0.0.1:80 0.0 0.0 "
        f'0.0 200 200 5 9 "GET https://www.example.com:443/ HTTP/2.0" "{agent}" ECDHE TLSv1.2 '
        'arn:x "Root=1-0" "www.example.com" "-" 0 2026-03-01T10:00:00Z "forward" "-" "-"'
    ),
    "Amazon classic": lambda i, agent: (
        f"2026-03-01T10:00:{i:02}.000000Z lb 192.0.2.{i}:{2000 + i} 10.0.0.1:80 0.0 0.0 0.0 200 "
        f'200 5 9 "GET https://www.example.com:443/ HTTP/1.1" "{agent}" - -'
    ),
    "LiteSpeed": lambda i, agent: f'"{COMBINED(i, agent)}"',
    # Forms that nothing names: what the fields hold tells which is which.
    "Bunny": lambda i, agent: (
        f"HIT|200|17723592{i:02}123|9|7612|192.0.2.{i}|-|https://x.b-cdn.net/a|DE|{agent}|ddba|DE"
    ),
    "CloudFront by the second": lambda i, agent: (
        f"17723592{i:02}.123\t192.0.2.{i}\t0.001\t200\t9\tGET\thttps\tx.net\t/a\t9\tFRA2\t"
        + percent(agent)
    ),
    "Squid": lambda i, agent: (
        f"17723592{i:02}.123 12 192.0.2.{i} TCP_MISS/200 9 GET http://example.org/a - "
        f'HIER_DIRECT/10.0.0.1 text/html "{agent}"'
    ),
    "Apache of TLS": lambda i, agent: (
        f'[01/Mar/2026:10:00:{i:02} +0000] 192.0.2.{i} TLSv1.3 "GET /a HTTP/1.1" 9 "{agent}"'
    ),
    # They begin as the usual ones, and then have fields between.
    "nginx with the host before": clf(' "www.example.com" "https://example.org/" "{}"'),
    "nginx with the agent before": clf(' "{}" "https://example.org/"'),
    "Tomcat with times": clf(' 12 "-" "{}" 0.003'),
    "nginx with an upstream before": clf(' 0.003 [api-80] "-" "{}" 12'),
    "Apache with proxies before": clf(' "192.0.2.200" "-" "{}" "-"'),
    "Fluentd": lambda i, agent: (
        f"2026-03-01T10:00:{i:02}+00:00\tnginx.access\t"
        + json.dumps(
            {
                "remote": f"192.0.2.{i}",
                "host": "-",
                "user": "-",
                "method": "GET",
                "path": "/",
                "code": "200",
                "size": "9",
                "referer": "-",
                "agent": agent,
            }
        )
    ),
    "a form of one's own": lambda i, agent: f'"{agent}";2026-03-01T10:00:{i:02}Z;192.0.2.{i};/a',
}


def logfmt(prefix: str = "", **members: str) -> Callable[[int, str], str]:
    """Lines of `key=value`, which every program in Go quotes where it must."""

    def line(i: int, agent: str) -> str:
        told = {name: text.format(i=i, agent=agent) for name, text in members.items()}
        pairs = (
            f"{name.replace('__', '.')}={json.dumps(text) if set(text) & set(' =,') else text}"
            for name, text in told.items()
        )
        return prefix.format(i=i) + " ".join(pairs)

    return line


TEXT |= {
    "logfmt of Traefik": logfmt(
        time="2026-03-01T10:00:{i:02}Z", level="info", msg="", ClientAddr="192.0.2.{i}:4000",
        ClientHost="192.0.2.{i}", DownstreamStatus="200", RequestMethod="GET", RequestPath="/a?b=1",
        **{"request_User-Agent": "{agent}", "downstream_Content-Type": "text/html; charset=utf-8"},
    ),
    "logfmt of a program at Heroku": logfmt(
        "2026-03-01T10:00:{i:02}.123456+00:00 app[web.1]: ", method="GET", path="/", status="200",
        duration="5.1", remote_ip="192.0.2.{i}", user_agent="{agent}",
    ),
    "logfmt of Grafana": logfmt(
        logger="context", userId="1", t="2026-03-01T10:00:{i:02}.5Z", msg="Request Completed",
        method="GET", path="/api", status="200", remote_addr="192.0.2.{i}", referer="",
        user_agent="{agent}",
    ),
    "logfmt of Caddy": logfmt(
        "<190>Mar  1 10:00:00 web caddy: ", ts="17723592{i:02}.5", msg="handled request",
        request__remote_ip="192.0.2.{i}", request__method="GET", status="200",
        **{"request.headers.User-Agent": '["{agent}"]'},
    ),
}  # fmt: skip
HEADERS = {
    "IIS": (
        (
            "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n"
            "#Date: 2026-03-01 10:00:00\n#Fields: date time s-ip cs-method cs-uri-stem s-port "
            "cs-username c-ip cs(User-Agent) cs(Referer) sc-status time-taken\n"
        ),
        lambda i, agent: (
            f"2026-03-01 10:00:{i:02} 10.0.0.1 GET / 443 - 192.0.2.{i} {plus(agent)} - 200 15"
        ),
    ),
    "IIS without dates": (
        "#Date: 2026-03-01 10:00:00\n#Fields: time c-ip cs-method cs(User-Agent) sc-status\n",
        lambda i, agent: f"10:00:{i:02} 192.0.2.{i} GET {plus(agent)} 200",
    ),
    "CloudFront": (
        (
            "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) "
            "cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie)\n"
        ),
        lambda i, agent: "\t".join(
            f"2026-03-01 10:00:{i:02} FRA2 9 192.0.2.{i} GET d1.cloudfront.net / 200 - "
            f"{percent(agent)} - -".split(" ")
        ),
    ),
    "CloudFront of old": (
        "#Version: 1.0\n#Fields: date time c-ip cs(User-Agent)\n",
        lambda i, agent: "\t".join(
            ["2026-03-01", f"10:00:{i:02}", f"192.0.2.{i}", agent.replace(" ", "%2520")]
        ),
    ),
    "quoted fields": (
        "#Fields: date time c-ip cs(User-Agent) sc-status\n",
        lambda i, agent: f'2026-03-01 10:00:{i:02} 192.0.2.{i} "{agent}" 200',
    ),
}
JSON: dict[str, Callable[[int, str], dict[str, Any]]] = {
    "nginx": lambda i, agent: {
        "time_iso8601": f"2026-03-01T10:00:{i:02}+00:00", "remote_addr": f"192.0.2.{i}",
        "user": "", "status": "200", "request_time": "0.004", "http_user_agent": agent,
    },
    "nginx in seconds": lambda i, agent: {
        "msec": f"17723592{i:02}.123", "remote_addr": f"192.0.2.{i}", "request": "GET / HTTP/1.1",
        "body_bytes_sent": 9, "http_referrer": "", "http_user_agent": agent,
    },
    "Caddy": lambda i, agent: {
        "level": "info", "ts": 1772359200 + i + 0.5, "msg": "handled request",
        "request": {
            "remote_ip": f"192.0.2.{i}", "remote_port": str(4000 + i), "proto": "HTTP/2.0",
            "method": "GET", "uri": "/", "headers": {"User-Agent": [agent], "X-Own": ["1"]},
        },
        "duration": 0.001, "status": 200, "resp_headers": {"Content-Type": ["text/html"]},
    },
    "Caddy as a table": lambda i, agent: {
        "ts": 1772359200 + i, "request>remote_ip": f"192.0.2.{i}", "request>method": "GET",
        "request>headers>User-Agent": [agent], "status": 200,
    },
    "Traefik": lambda i, agent: {
        "ClientAddr": f"192.0.2.{i}:{4000 + i}", "ClientHost": f"192.0.2.{i}",
        "DownstreamStatus": 200, "Duration": 1000 + i, "RequestMethod": "GET", "RequestPath": "/",
        "StartUTC": f"2026-03-01T10:00:{i:02}.123456789Z", "request_User-Agent": agent,
        "downstream_Content-Type": "text/html", "time": f"2026-03-01T10:00:{i:02}Z",
    },
    "Envoy": lambda i, agent: {
        "start_time": f"2026-03-01T10:00:{i:02}.123Z", "method": "GET", "path": "/",
        "protocol": "HTTP/1.1", "response_code": 200, "user_agent": agent, "duration": 7 + i,
        "downstream_remote_address": f"192.0.2.{i}:{4000 + i}", "upstream_host": "10.0.0.1:80",
    },
    "Cloudflare": lambda i, agent: {
        "ClientIP": f"192.0.2.{i}", "ClientRequestHost": "www.example.com",
        "ClientRequestMethod": "GET", "ClientRequestURI": "/", "EdgeResponseStatus": 200,
        "EdgeStartTimestamp": f"2026-03-01T10:00:{i:02}Z", "ClientRequestUserAgent": agent,
        "RayID": f"9{i:015x}",
    },
    "Cloudflare in nanoseconds": lambda i, agent: {
        "ClientIP": f"192.0.2.{i}", "ClientRequestMethod": "GET", "EdgeResponseStatus": 200,
        "EdgeStartTimestamp": (1772359200 + i) * 10**9, "ClientRequestUserAgent": agent,
    },
    "Google": lambda i, agent: {
        "timestamp": f"2026-03-01T10:00:{i:02}.123456Z", "insertId": f"x{i}",
        "httpRequest": {
            "requestMethod": "GET", "requestUrl": "https://www.example.com/", "status": 200,
            "userAgent": agent, "remoteIp": f"192.0.2.{i}", "latency": "0.1s",
        },
    },
    "Azure": lambda i, agent: {
        "time": f"2026-03-01T10:00:{i:02}.1234567Z", "category": "FrontDoorAccessLog",
        "properties": {
            "httpMethod": "GET", "httpStatusCode": "200", "clientIp": f"192.0.2.{i}",
            "userAgent": agent, "requestUri": "https://www.example.com:443/",
        },
    },
    "Elastic": lambda i, agent: {
        "@timestamp": f"2026-03-01T10:00:{i:02}.000Z", "source": {"ip": f"192.0.2.{i}"},
        "http": {"request": {"method": "GET"}, "response": {"status_code": 200}},
        "user_agent": {"original": agent}, "url": {"path": "/"},
    },
    "Fastly": lambda i, agent: {
        "timestamp": f"2026-03-01T10:00:{i:02}+0000", "client_ip": f"192.0.2.{i}", "url": "/",
        "request_method": "GET", "request_referer": "", "request_user_agent": agent,
        "response_status": 200,
    },
    "the firewall of Amazon": lambda i, agent: {
        "timestamp": 1772359200000 + i, "action": "ALLOW",
        "httpRequest": {
            "clientIp": f"192.0.2.{i}", "uri": "/", "httpMethod": "GET",
            "headers": [{"name": "Host", "value": "x"}, {"name": "user-Agent", "value": agent}],
        },
    },
    "OpenTelemetry of before": lambda i, agent: {
        "timestamp": f"2026-03-01T10:00:{i:02}Z",
        "attributes": {
            "http.method": "GET", "http.status_code": 200, "http.target": "/",
            "net.peer.ip": f"192.0.2.{i}", "http.user_agent": agent,
        },
    },
    "Akamai": lambda i, agent: {
        "version": 1, "cp": "1", "reqTimeSec": f"17723592{i:02}.123", "cliIP": f"192.0.2.{i}",
        "statusCode": "200", "proto": "HTTPS", "reqMethod": "GET", "reqPath": "/", "UA": agent,
    },
    "a container": lambda i, agent: {
        "log": COMBINED(i, agent) + "\n", "stream": "stdout", "time": f"2026-03-01T10:00:{i:02}Z",
    },
    "a container of Caddy": lambda i, agent: {
        "log": json.dumps(JSON["Caddy"](i, agent)) + "\n", "stream": "stderr",
        "time": f"2026-03-01T10:00:{i:02}Z",
    },
    "a server of Node": lambda i, agent: {
        "level": 30, "time": 1772359200000 + i,
        "req": {
            "method": "GET", "url": "/", "remoteAddress": f"::ffff:192.0.2.{i}",
            "headers": {"user-agent": agent, "cookie": "a=b"},
        },
        "res": {"statusCode": 200, "headers": {"content-type": "text/html"}},
    },
}  # fmt: skip


def requests(line: Callable[[int, str], str]) -> list[str]:
    """Lines of two requests of each visitor."""
    return [line(i, AGENTS[i % 2]) for i in range(1, VISITORS + 1) for _ in range(2)]


def log_of(name: str) -> tuple[str, str]:
    """A log by its kind, and an ending of its file."""
    if name in TEXT:
        return "\n".join(requests(TEXT[name])) + "\n", "log"
    if name in HEADERS:
        header, line = HEADERS[name]
        lines = requests(line)
        # Servers write the header again when they start.
        return header + "\n".join(lines[:9]) + "\n" + header + "\n".join(lines[9:]) + "\n", "log"
    record = JSON[name.removeprefix("JSON of ")]
    return "\n".join(requests(lambda i, agent: json.dumps(record(i, agent)))) + "\n", "jsonl"


KINDS = [*TEXT, *HEADERS, *(f"JSON of {name}" for name in JSON)]


def stored(db: Path) -> dict[str, Any]:
    """What a database holds: users, times, and the values of each API."""
    with duckdb.connect(str(db), read_only=True) as connection:

        def rows(query: str) -> list[Any]:
            return connection.execute(query).fetchall()

        values: dict[str, set[str]] = {}
        for api, text in rows("SELECT api.name, text FROM value JOIN api USING (api_id)"):
            values.setdefault(api, set()).add(text)
        [(users,)] = rows("SELECT count(*) FROM user")
        days = rows('SELECT min("time")::DATE::VARCHAR, max("time")::DATE::VARCHAR FROM visit')
    return {"values": values, "users": users, "days": set(days[0])}


@pytest.mark.parametrize("name", KINDS)
def test_a_log_is_read_by_its_own_form_and_tells_visitors_and_user_agents(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, ending = log_of(name)
    log, db = tmp_path / f"access.{ending}", tmp_path / "db"
    log.write_text(text, encoding="utf-8")
    assert run(["ingest", str(log), "--db", str(db)]) == 2, "requests are no users"
    assert "--visitor" in capsys.readouterr().err
    assert run(["ingest", str(log), "--db", str(db), "--visitor"]) == 0
    [batch] = json.loads(capsys.readouterr().out)["batches"]
    assert (batch["collector"], batch["rejected"]) == ("accesslog", 0)
    assert batch["read"] == 2 * VISITORS
    found = stored(db)
    assert found["values"] == {"http:user-agent": set(AGENTS)}
    assert (found["users"], found["days"]) == (VISITORS, {"2026-03-01"})


@pytest.mark.parametrize("name", KINDS)
def test_shares_reads_what_ingest_reads(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, ending = log_of(name)
    log = tmp_path / f"access.{ending}.gz"
    log.write_bytes(gzip.compress(text.encode()))
    assert (
        run(["collect", "shares", str(log), "--by", "family", "-o", str(tmp_path / "shares.toml")])
        == 0
    )
    assert f"{VISITORS} visitors" in capsys.readouterr().err
    shares = (tmp_path / "shares.toml").read_text()
    assert '"chromium" = 0.5' in shares
    assert '"firefox" = 0.5' in shares


ODD = 'Mozilla/5.0 "é" \\ {x|y} #1 100% +'


def table(i: int, agent: str) -> dict[str, Any]:
    """A request as Amazon's Athena names its columns."""
    return {
        "time": f"2026-03-01T10:00:{i:02}.0Z", "elb": "app/lb/1", "client_ip": f"192.0.2.{i}",
        "client_port": 4000 + i, "request_verb": "GET", "request_url": "https://www.example.com/",
        "request_proto": "HTTP/2.0", "elb_status_code": 200, "user_agent": agent,
    }  # fmt: skip


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_tables_of_requests_are_known_by_their_columns(tmp_path: Path, ending: str) -> None:
    rows = [table(i, AGENTS[i % 2]) for i in range(1, VISITORS + 1)]
    log = tmp_path / f"access.{ending}"
    frame = pl.DataFrame(rows)
    {"csv": frame.write_csv, "parquet": frame.write_parquet, "json": frame.write_json}[ending](log)
    assert run(["ingest", str(log), "--db", str(tmp_path / "db"), "--visitor", "-q"]) == 0
    found = stored(tmp_path / "db")
    assert found["values"] == {"http:user-agent": set(AGENTS)}
    assert (found["users"], found["days"]) == (VISITORS, {"2026-03-01"})


@pytest.mark.parametrize("part", ["WebGL2RenderingContext.getParameter#VERSION", "A.b#c"])
def test_a_part_of_an_api_that_is_not_listed_alone_is_a_member_as_any(
    tmp_path: Path, part: str
) -> None:
    rows = [{"user": f"u{i}", **table(i, AGENTS[0]), part: f"v{i % 3}"} for i in range(9)]
    pl.DataFrame(rows).write_ndjson(tmp_path / "x.jsonl")
    assert run(["ingest", str(tmp_path / "x.jsonl"), "--db", str(tmp_path / "db"), "-q"]) == 0


ESCAPED = {
    "nginx": COMBINED(1, r"Mozilla/5.0 \x22\xC3\xA9\x22 \x5C {x|y} #1 100% +"),
    "Apache": COMBINED(1, r"Mozilla/5.0 \"\xc3\xa9\" \\ {x|y} #1 100% +"),
    "raw UTF-8": COMBINED(1, r"Mozilla/5.0 \"é\" \\ {x|y} #1 100% +"),
    "HAProxy": TEXT["HAProxy"](1, "Mozilla/5.0 #22#C3#A9#22 \\ #7Bx#7Cy#7D #231 100% +"),
    "CloudFront": HEADERS["CloudFront of old"][0]
    + "2026-03-01\t10:00:00\t192.0.2.1\t"
    + "Mozilla/5.0%20%22%C3%A9%22%20%5C%20%7Bx%7Cy%7D%20%231%20100%25%20%2B",
    "quoted": HEADERS["quoted fields"][0]
    + '2026-03-01 10:00:00 192.0.2.1 "Mozilla/5.0 ""é"" \\ {x|y} #1 100% +" 200',
    "JSON": json.dumps(JSON["Google"](1, ODD)),
}


def ingested(
    tmp_path: Path, text: str, *options: str, name: str = "access.log"
) -> dict[str, set[str]]:
    """Values of each API of a log whose rows are counted."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    asked = ["ingest", str(tmp_path / name), "--db", str(tmp_path / "db"), "-q"]
    assert run([*asked, "--user", "row", *options]) == 0
    values: dict[str, set[str]] = stored(tmp_path / "db")["values"]
    return values


@pytest.mark.parametrize("name", ESCAPED)
def test_the_escapes_of_each_server_are_undone(name: str, tmp_path: Path) -> None:
    assert ingested(tmp_path, ESCAPED[name] + "\n") == {"http:user-agent": {ODD}}


FORMATS = {
    "nginx": (
        (
            "log_format own '$remote_addr [$time_local] \"$request\" '\n"
            '  \'$upstream_response_time "$http_user_agent" "$http_accept_language" $http_dnt\';'
        ),
        '192.0.2.1 [01/Mar/2026:10:00:00 +0000] "GET / HTTP/1.1" 0.1, 0.2 "{}" "de" 1',
    ),
    "nginx with bars": (
        "$msec|$remote_addr|$http_user_agent|$http_accept_language|$http_dnt|$status",
        "1772359200.123|192.0.2.1|{}|de|1|200",
    ),
    "Apache": (
        (
            r'LogFormat "%v %a %l %u %t \"%r\" %>s %O \"%{User-Agent}i\" \"%{Accept-Language}i\" '
            r'\"%{DNT}i\" %{ms}T" own'
        ),
        (
            'www.example.com 192.0.2.1 - - [01/Mar/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 9 '
            '"{}" "de" "1" 12'
        ),
    ),
    "Apache alone": (
        '%{%Y-%m-%dT%H:%M:%S}t %h "%{Accept-Language}i" "%{User-agent}i" %{dnt}i',
        '2026-03-01T10:00:00 192.0.2.1 "de" "{}" 1',
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_log_format_names_the_fields(name: str, tmp_path: Path) -> None:
    form, line = FORMATS[name]
    values = {
        "http:user-agent": {FIREFOX}, "http:accept-language": {"de"}, "http:dnt": {"1"},
    }  # fmt: skip
    text = line.format(FIREFOX) + "\n"
    assert ingested(tmp_path, text, "--log-format", form) == values
    assert stored(tmp_path / "db")["days"] == {"2026-03-01"}
    (tmp_path / "db").unlink()
    (tmp_path / "map.toml").write_text(f"log_format = {json.dumps(form)}\n")
    assert ingested(tmp_path, text, "--columns", str(tmp_path / "map.toml")) == values


def test_a_log_format_without_fields_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "access.log").write_text(COMBINED(1, FIREFOX) + "\n")
    asked = ["ingest", str(tmp_path / "access.log"), "--db", str(tmp_path / "db")]
    assert run([*asked, "--user", "row", "--log-format", "combined"]) == 2
    assert "log format" in capsys.readouterr().err


def test_extra_headers_are_read_and_places_and_resources_are_not(tmp_path: Path) -> None:
    record = JSON["Caddy"](1, FIREFOX)
    record["request"]["headers"] |= {
        "Accept-Language": ["de", "en"], "Sec-Ch-Ua-Platform": ['"Linux"'], "Accept": ["image/*"],
        "Cookie": ["secret"], "Referer": ["https://secret.example/"], "Dnt": ["1"],
        "X-Forwarded-For": ["198.51.100.9"],
    }  # fmt: skip
    page = json.loads(json.dumps(record))
    page["request"]["headers"] |= {"Sec-Fetch-Mode": ["navigate"], "Accept": ["text/html"]}
    text = "".join(json.dumps(one) + "\n" for one in (record, page))
    assert ingested(tmp_path, text, name="access.jsonl") == {
        "http:user-agent": {FIREFOX},
        "http:accept-language": {"de, en"},
        "http:sec-ch-ua-platform": {'"Linux"'},
        "http:dnt": {"1"},
        "http:sec-fetch-mode": {"navigate"},
        "http:accept": {"text/html"},  # of an image it tells the image
    }
    for place in (b"192.0.2.1", b"198.51.100.9", b"secret"):
        assert place not in (tmp_path / "db").read_bytes()


def test_requests_that_lack_the_user_agent_are_kept_if_they_have_another_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"time": "2026-03-01T10:00:00Z", "remote_addr": "192.0.2.1", "status": "200"} | headers
        for headers in (
            {"http_user_agent": FIREFOX, "http_accept_language": "de"},
            {"http_user_agent": "", "http_accept_language": "en"},
            {"http_user_agent": "-", "http_accept_language": ""},
        )
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "no JSON\n"
    assert ingested(tmp_path, text, name="access.jsonl") == {
        "http:user-agent": {FIREFOX},
        "http:accept-language": {"de", "en"},
    }
    rejected = answer_of(capsys, "db", "rejects", "--db", str(tmp_path / "db"))
    assert [one["line"] for one in rejected] == [3, 4]
    assert "no header" in rejected[0]["reason"]


def test_strangers_cannot_change_the_form_of_a_log(tmp_path: Path) -> None:
    real = [COMBINED(i, AGENTS[i % 2]) for i in range(20)]
    scans = [clf(' "Mozilla/5.0 x" "{}"')(i % 60, "sqlmap") for i in range(180)]
    values = ingested(tmp_path, "\n".join([*scans, *real]) + "\n")
    assert values["http:user-agent"] == {*AGENTS, "sqlmap"}


def test_half_a_character_in_a_line_of_a_container_rejects_that_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"log": COMBINED(i, AGENTS[i % 2])}) for i in range(VISITORS)]
    broken = json.dumps({"log": COMBINED(VISITORS, "Mozilla/5.0 \ud800")})
    values = ingested(tmp_path, "\n".join([broken, *lines]) + "\n")
    assert values["http:user-agent"] == {*AGENTS}
    [rejected] = answer_of(capsys, "db", "rejects", "--db", str(tmp_path / "db"))
    assert (rejected["line"], rejected["reason"]) == (1, "not UTF-8")


def test_lines_of_no_form_are_rejected_where_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = COMBINED(1, FIREFOX)
    long = f"{good}{'x' * 40_000}"
    text = f"{good}\n\nstarting up\n{good}\x01\n{long}\n\n{COMBINED(2, '-')}\n{good}\n"
    ingested(tmp_path, text)
    rejected = answer_of(capsys, "db", "rejects", "--db", str(tmp_path / "db"))
    reasons = ("not a line", "control characters", "longer than", "no header")
    assert [one["line"] for one in rejected] == [3, 4, 5, 7]
    for one, reason in zip(rejected, reasons, strict=True):
        assert reason in one["reason"]


def test_lines_of_logfmt_that_are_broken_are_rejected_where_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = TEXT["logfmt of Grafana"](1, FIREFOX)
    text = f'starting up\n{good} cached\n\nlevel=info agent="\n{good}\n'
    ingested(tmp_path, text)
    rejected = answer_of(capsys, "db", "rejects", "--db", str(tmp_path / "db"))
    assert [(one["line"], one["reason"]) for one in rejected] == [
        (1, "not logfmt"),
        (4, "not logfmt"),
    ]


def test_logfmt_may_hold_what_pages_tell_as_any_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        f'user=u{i} platform="Linux x86_64" screen.width={800 + i % 2} language= touch={i % 2}'
        for i in range(30)
    ]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "b.csv").write_text(
        "user,platform,screen.width,language,touch\n"
        + "".join(f"u{i},Linux x86_64,{800 + i % 2},,{i % 2}\n" for i in range(30))
    )
    members = []
    for name in ("a.log", "b.csv"):
        assert run(["ingest", str(tmp_path / name), "--db", str(tmp_path / name[0])]) == 0
        [batch] = json.loads(capsys.readouterr().out)["batches"]
        members.append(sorted(batch["account"]["members"], key=lambda one: str(one["path"])))
    assert members[0] == members[1]


def test_tables_whose_fields_hold_equals_signs_are_no_logfmt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"u{i},https://example.org/?a={i % 2},Linux" for i in range(20)]
    (tmp_path / "a.csv").write_text("user,a=b,platform\n" + "\n".join(lines) + "\n")
    assert run(["ingest", str(tmp_path / "a.csv"), "--db", str(tmp_path / "db")]) == 0
    [batch] = json.loads(capsys.readouterr().out)["batches"]
    assert (batch["collector"], batch["read"], batch["rejected"]) == ("wide", 20, 0)


def test_a_member_that_is_null_in_every_request_keeps_no_other_away(
    tmp_path: Path,
) -> None:
    record = JSON["Envoy"]
    lines = requests(lambda i, agent: json.dumps({"a_referrer": None, **record(i, agent)}))
    lines = [line.replace('"start_time"', '"t"') for line in lines]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    asked = ["ingest", str(tmp_path / "a.jsonl"), "--db", str(tmp_path / "db"), "--visitor"]
    assert run(asked) == 0
    assert stored(tmp_path / "db")["users"] == VISITORS


def test_the_common_format_is_refused_as_it_lacks_the_user_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "access.log").write_text(clf("")(1, "") + "\n")
    for command in (["ingest", "--visitor"], ["collect", "shares"]):
        assert run([*command, str(tmp_path / "access.log")]) == 2
        assert "lacks the user agent" in capsys.readouterr().err


NO_REQUESTS = {
    "a survey": {"user": "u", "userAgent": FIREFOX, "screen": {"width": 8}, "status": "active"},
    "events of pages": {
        "user": "u", "ip": "192.0.2.1", "url": "/", "userAgent": FIREFOX, "referrer": "-",
    },
    "scripts and a header": {
        "user": "u", "navigator": {"platform": "Linux"}, "screen": {"width": 8}, "ip": "192.0.2.1",
        "headers": {"User-Agent": FIREFOX}, "path": "/", "status": 200, "method": "GET",
    },
    "headers of users": {"user": "u", "User-Agent": FIREFOX, "Accept-Language": "de"},
}  # fmt: skip


@pytest.mark.parametrize("name", NO_REQUESTS)
def test_what_pages_tell_is_no_log_of_a_server(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [NO_REQUESTS[name] | {"user": f"u{i}"} for i in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(["ingest", str(tmp_path / "a.jsonl"), "--db", str(tmp_path / "db")])
    printed = capsys.readouterr()
    assert "accesslog" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("request.headers.User-Agent", "http:user-agent"),
        ("request_User-Agent", "http:user-agent"),
        ("ClientRequestUserAgent", "http:user-agent"),
        ("httpRequest.userAgent", "http:user-agent"),
        ("request>headers>User-Agent", "http:user-agent"),
        ("cs(User-Agent)", "http:user-agent"),
        ("http.request.headers.accept-language", "http:accept-language"),
        ("event.req.headers.sec-ch-ua", "http:sec-ch-ua"),
        ("requestHeaders.dnt", "http:dnt"),
        ("userAgent", "Navigator.userAgent"),
        ("res.headers.accept", ""),
        ("downstream_Accept", ""),
        ("priority", ""),
    ],
)
def test_headers_below_any_prefix_are_known_in_every_log(
    name: str, api: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [{"user": f"u{i}", name: f"value {i % 3}"} for i in range(30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    db = ["--db", str(tmp_path / "db")]
    assert run(["ingest", str(tmp_path / "a.jsonl"), *db, "-q"]) == 0
    [row] = answer_of(capsys, "db", "apis", *db)
    assert (row["api"], row["means"] or "") == (name, api)


@pytest.mark.parametrize("name", ["nginx.org main", "IIS", "JSON of Caddy", "JSON of Cloudflare"])
def test_the_account_lists_what_is_not_taken_and_why(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, ending = log_of(name)
    (tmp_path / f"access.{ending}").write_text(text)
    asked = ["ingest", str(tmp_path / f"access.{ending}"), "--visitor"]
    assert run([*asked, "--db", str(tmp_path / "db")]) == 0
    [batch] = json.loads(capsys.readouterr().out)["batches"]
    members = {member["path"]: member for member in batch["account"]["members"]}
    kinds = {member["api"]: member["kind"] for member in members.values()}
    assert kinds["http:user-agent"] in {"API", "constant"}
    assert sum(member["kind"] == "time" for member in members.values()) == 1
    left_out = {path for path, member in members.items() if member["kind"] == "not taken"}
    address = {"log": "host", "jsonl": "request.remote_ip"}[ending]
    address = {"IIS": "c-ip", "JSON of Cloudflare": "ClientIP"}.get(name, address)
    assert members[address]["why"] == "tells where the request came from"
    assert members[address]["values"] == VISITORS
    assert address in left_out
    assert len(left_out) >= 4
