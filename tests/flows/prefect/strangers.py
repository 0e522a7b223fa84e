"""Ask a Prefect server as pages of other origins and other users do."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request

from flows.prefect.secret import secret


def ask(address: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of the answer to a POST, or to what the headers ask for beforehand."""
    method = "OPTIONS" if "Access-Control-Request-Method" in headers else "POST"
    request = urllib.request.Request(
        f"{address}{path}", b"{}", {"Content-Type": "application/json", **headers}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}
    except urllib.error.HTTPError as error:
        return error.code, {name.lower(): value for name, value in error.headers.items()}


def refuses_strangers(address: str) -> None:
    """Check that a Prefect server does nothing for pages of other origins, nor for who has no secret."""
    allowed = "access-control-allow-origin"
    basic = "Basic " + base64.b64encode(secret().encode()).decode()
    foreign = {"Origin": "https://evil.example"}
    assert ask(address, "/flow_runs/filter", Authorization=basic)[0] == 200
    for path in ("/flow_runs/filter", "/deployments/filter", "/deployments/"):
        for headers in ({}, foreign, {"Authorization": "Basic ZHJlYW1lcjpndWVzcw=="}):
            status, answered = ask(address, path, **headers)
            assert status == 401
            assert allowed not in answered
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,authorization"}
    status, answered = ask(address, "/deployments/", **foreign, **wanted)
    assert status == 400
    assert allowed not in answered
    with urllib.request.urlopen(address.removesuffix("/api"), timeout=30) as page:
        assert b"<html" in page.read().lower()
