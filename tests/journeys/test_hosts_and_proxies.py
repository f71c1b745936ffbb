"""Host names and proxies of a running service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.server import Server, running


@pytest.mark.long
@pytest.mark.parametrize("auth", ["off", "on"])
def test_other_host_names_are_refused(tmp_path: Path, auth: str) -> None:
    """Pages, the documentation, the API and predictions, with the setting to change. IP addresses
    are allowed, so probes by the address of a container work."""
    with running(tmp_path / "var", SVM_AUTH=auth, SVM_WORKERS="0", SVM_HOSTS="proxy") as server:
        for host in ("evil.example", "evil.example:8000", "localhost.evil.example"):
            for method, path in (
                *(("GET", "/"), ("GET", "/docs"), ("GET", "/v1/models"), ("GET", "/livez")),
                *(("POST", "/v1/models/any/predict"), ("DELETE", "/v1/models/any")),
            ):
                reply = server.http.request(method, path, headers={"Host": host}, json={})
                assert (reply.status_code, reply.json()["code"]) == (421, "foreign-host")
                assert "SVM_HOSTS" in reply.json()["detail"]
        for host in ("localhost", "proxy:8080", "10.42.0.7:8000", "[::1]:8000"):
            assert server.http.get("/readyz", headers={"Host": host}).status_code == 200


@pytest.mark.long
@pytest.mark.parametrize(("proxies", "evaded"), [("", False), ("127.0.0.1, 10.0.0.0/8", True)])
def test_callers_do_not_choose_their_address(tmp_path: Path, proxies: str, evaded: bool) -> None:
    """`X-Forwarded-For` is ignored, unless it comes from a proxy in the settings."""
    settings = {"SVM_LIMITS__REQUESTS_PER_S": "0.05", "SVM_PROXIES": proxies}
    with running(tmp_path / "var", SVM_WORKERS="0", **settings) as server:
        statuses = [_status(server, f"198.51.100.{i}") for i in range(5)]
        assert statuses == [200] * 5 if evaded else [200, *[429] * 4]


def _status(server: Server, address: str) -> int:
    headers = {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}
    return server.http.get("/v1/models", headers=headers).status_code
