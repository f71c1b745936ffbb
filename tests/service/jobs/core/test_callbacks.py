"""Callbacks: written with the end of a job, sent until a receiver has them."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from standardwebhooks import Webhook
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs import callbacks as module
from service.jobs.callbacks import (
    Deliveries,
    Delivery,
    Destinations,
    Refused,
    Sender,
    SendResult,
    sign,
)
from service.rows.parser import Parser
from service.settings import Settings
from service.storage.database import Database, new_id, now
from service.storage.database.tables import deliveries as table
from tests.backends import ON_ALL_BACKENDS
from tests.service.jobs.core.receiver import Receiver, certificate, receiving, status
from tests.service.jobs.data import create, job_body, upload

SECRET = b"0123456789abcdef0123456789abcdef"
WHSEC = f"whsec_{base64.b64encode(SECRET).decode()}"
LOCAL = "hooks.test, 127.0.0.0/8"
SETTINGS = {"callback_hosts": LOCAL, "callback_secret": WHSEC}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update=SETTINGS)


@pytest.fixture(scope="module")
def refusing(settings_of_module: Settings, shared_parser: Parser) -> Iterator[TestClient]:
    """A client of one application, with a dataset, for requests that send nothing."""
    settings = settings_of_module.model_copy(update=SETTINGS)
    with TestClient(create_app(settings, shared_parser=shared_parser)) as client:
        upload(client)
        yield client


@pytest.fixture
def stored(database: Database) -> Deliveries:
    return Deliveries(database)


def add(database: Database, url: str, count: int = 1) -> list[str]:
    """Deliveries that are due, as the ends of jobs write them; their ids."""
    rows = [
        {"id": new_id("msg"), "job_id": f"job_{n}", "url": url, "body": f'{{"n":{n}}}'}
        for n in range(count)
    ]
    about = {"created_at": now(), "next_at": now(), "attempts": 0}
    with database.write() as connection:
        connection.execute(sa.insert(table).values(about), rows)
    return [row["id"] for row in rows]


def of(database: Database) -> list[Delivery]:
    with database.read() as connection:
        return [Delivery(**row._mapping) for row in connection.execute(sa.select(table))]


def make_due(database: Database) -> None:
    """As if the pauses, and leases of dead processes, were over."""
    with database.write() as connection:
        due = sa.update(table).where(table.c.next_at.is_not(None))
        connection.execute(due.values(next_at=now() - 1))


async def resolve_local(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def sender(database: Database, **options: Any) -> Sender:
    resolve = options.get("resolve", resolve_local)
    destinations = Destinations(options.get("allowed", LOCAL), resolve)
    return Sender(Deliveries(database), destinations, [SECRET])


def send_until(
    database: Database, done: Callable[[list[Delivery]], bool], *senders: Sender, **options: Any
) -> list[Delivery]:
    """Let senders run until the deliveries are as they should be."""

    async def run() -> None:
        running = senders or (sender(database, **options),)
        tasks = [asyncio.create_task(each.run()) for each in running]
        async with asyncio.timeout(60):
            while not done(of(database)):
                await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
    return of(database)


def attempted(rows: list[Delivery]) -> bool:
    return all(row.last_error or row.delivered_at for row in rows)


def delivered(rows: list[Delivery]) -> bool:
    return all(row.delivered_at for row in rows)


# The end of a job


@ON_ALL_BACKENDS
def test_end_of_a_job_calls_back(client: TestClient, receiver: Receiver) -> None:
    """A signed POST request tells what the job's `end` event tells; the job shows the delivery."""
    upload(client)
    url = receiver.url("/ok?token=1")
    job = create(client, callback=url, tags={"team": "x"})
    deliveries = f"/v1/jobs/{job}/deliveries"
    assert client.get(deliveries).json() == {"deliveries": []}
    assert client.get(f"/v1/jobs/{job}").json()["callback"] == url
    assert "callback" not in client.get(f"/v1/jobs/{job}").json()["spec"]
    client.post(f"/v1/jobs/{job}/cancel")
    [request] = receiver.wait(1)
    body = Webhook(WHSEC).verify(request.body, request.headers)
    ended = client.get(f"/v1/jobs/{job}").json()
    assert (body["type"], body["timestamp"]) == ("job.canceled", ended["finished_at"])
    about = {"id": job, "kind": "train", "url": f"/v1/jobs/{job}", "tags": {"team": "x"}}
    assert body["data"].items() >= {**about, "state": "canceled", "model": None}.items()
    while (shown := client.get(deliveries).json()["deliveries"][0])["state"] == "waiting":
        time.sleep(0.01)
    assert shown["id"] == request.headers["webhook-id"]
    assert (shown["state"], shown["attempts"], shown["event"]) == ("delivered", 1, "job.canceled")
    assert shown["last_error"] is None
    assert client.delete(f"/v1/jobs/{job}").status_code == 204
    assert client.get(deliveries).status_code == 404


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://elsewhere.test/", "callbacks to elsewhere.test are not allowed"),
        ("http://10.0.0.1/", "callbacks to 10.0.0.1 are not allowed"),
        ("http://[::1]/", "callbacks to ::1 are not allowed"),
        ("http://hooks.test.evil.test/", "not allowed"),
        ("http://hooks.test@evil.test/", "pattern"),
        ("http://hooks.test:99999/", "ort"),
        ("ftp://hooks.test/", "pattern"),
        ("http://hooks.test/#x", "pattern"),
        ("http://hooks.test/\r\nX: y", "pattern"),
        ("hooks.test", "pattern"),
    ],
)
def test_other_destinations_are_refused_at_once(
    refusing: TestClient, url: str, message: str
) -> None:
    """Before the job is queued; the error says what to do."""
    reply = refusing.post("/v1/jobs", json=job_body(callback=url))
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field"), reply.text
    [error] = reply.json()["errors"]
    assert error["pointer"] == "/callback"
    assert message in error["message"]


def test_jobs_of_a_batch_are_refused_one_by_one(refusing: TestClient) -> None:
    jobs = [job_body(callback=f"http://{host}/") for host in ("hooks.test", "elsewhere.test")]
    first, second = refusing.post("/v1/jobs:batch", json={"jobs": jobs}).json()["jobs"]
    assert first["job"]["callback"] == "http://hooks.test/"
    assert second["error"]["code"] == "invalid-field"


# Where it goes


PRIVATE = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "224.0.1.1", "255.255.255.255", "192.0.2.1", "::", "::1", "fe80::1%eth0"),
    *("fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b:1::a00:1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1"),
    *(
        "::7f00:1",
        "::127.0.0.1",
        "::a00:1",
        "::ffff:0:127.0.0.1",
        "::ffff:0:0:1",
        "64:ff9b::10.0.0.1",
    ),
    *("2002:a00:1::1", "2001:0:4136:e378:8000:63bf:f5ff:fffe", "fec0::1", "4000::1", "3fff::1"),
    *("2600::5efe:10.0.0.1", "2600::200:5efe:127.0.0.1", "192.0.0.8", "192.88.99.1", "198.18.0.1"),
)


@pytest.mark.parametrize("address", PRIVATE)
@pytest.mark.parametrize("others", [[], ["93.184.215.14"], ["2606:2800:21f:cb07::1"]])
def test_names_must_have_public_addresses_only(address: str, others: list[str]) -> None:
    """One that is not public is enough to refuse all."""
    for addresses in ([address, *others], [*others, address]):

        async def resolve(host: str, port: int, found: list[str] = addresses) -> list[str]:
            return found

        destinations = Destinations("*", resolve)
        with pytest.raises(Refused, match="not public") as caught:
            asyncio.run(destinations.addresses("https://hooks.test/"))
        assert address not in str(caught.value)


def test_public_and_allowed_addresses() -> None:
    """Networks of the setting allow addresses of hosts that are allowed by name, and addresses
    that a URL itself has."""
    found = ["93.184.215.14", "10.0.0.7", "::ffff:10.0.0.8"]

    async def resolve(host: str, port: int) -> list[str]:
        return found

    destinations = Destinations("*.hooks.test, 10.0.0.0/24", resolve)
    assert asyncio.run(destinations.addresses("https://a.hooks.test/")) == found
    assert asyncio.run(destinations.addresses("http://10.0.0.9:81/"))
    for url in ("https://hooks.test/", "http://10.0.1.9/", "https://93.184.215.14/"):
        with pytest.raises(Refused, match="not allowed"):
            asyncio.run(destinations.addresses(url))


def test_name_is_resolved_once(database: Database, receiver: Receiver) -> None:
    """What it resolves to later does not matter: the connection is made to the address that was
    checked. The Host header has the name."""
    asked = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    add(database, receiver.url("/ok", "hooks.test"))
    send_until(database, delivered, resolve=resolve)
    assert asked == ["hooks.test"]
    [request] = receiver.requests
    assert request.headers["host"] == f"hooks.test:{receiver.port}"


def test_next_address_is_tried_if_one_does_not_listen(
    database: Database, receiver: Receiver
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.3", "127.0.0.1"]

    add(database, receiver.url("/ok", "hooks.test"))
    [row] = send_until(database, attempted, resolve=resolve)
    assert (row.state, row.attempts) == ("delivered", 1)


def test_address_that_became_private_is_refused(database: Database, receiver: Receiver) -> None:
    """The check is repeated with every attempt."""
    add(database, receiver.url("/ok", "hooks.test"))
    [row] = send_until(database, attempted, allowed="hooks.test")
    assert row.state == "waiting"
    assert row.last_error is not None
    assert "not public" in row.last_error
    assert receiver.requests == []


def test_tls_is_checked_for_the_name(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is to the address, server name and certificate are those of the host."""
    trusted, context = certificate(tmp_path, "hooks.test")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with receiving(context=context) as receiver:
        add(database, receiver.url("/ok", "hooks.test", "https"))
        [row] = send_until(database, attempted)
        assert row.state == "delivered"
        assert receiver.requests[0].sni == "hooks.test"
        add(database, receiver.url("/ok", "other.test", "https"))
        rows = send_until(database, attempted, allowed="*, 127.0.0.0/8")
        assert "certificate" in (rows[1].last_error or "")
        assert len(receiver.requests) == 1


def test_proxies_of_the_environment_are_ignored(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    add(database, receiver.url("/ok"))
    [row] = send_until(database, attempted)
    assert row.state == "delivered"


# What receivers reply


@pytest.mark.parametrize(
    ("path", "state", "error"),
    [
        ("/ok", "delivered", None),
        ("/endless-body", "delivered", None),
        ("/failing", "waiting", "replied 500"),
        ("/redirecting", "waiting", "replied 307; redirects are not followed"),
        ("/gone", "failed", "replied 410"),
        ("/silent", "waiting", "no reply within 0.5 s"),
        ("/endless-header", "waiting", "no reply: "),
        ("/closing", "waiting", "no reply: "),
    ],
)
def test_replies(
    database: Database,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    state: str,
    error: str | None,
) -> None:
    """Only 2xx is success; of a reply only the header is read, and not for long."""
    monkeypatch.setattr(module, "ATTEMPT_S", 0.5)
    add(database, receiver.url(path))
    [row] = send_until(database, attempted)
    assert row.state == state
    assert (row.last_error or "").startswith(error or "")
    assert [request.path for request in receiver.requests] == [path]


def test_slow_receiver_does_not_delay_others(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, receiver.url("/silent"), module.AT_ONCE - 1)
    add(database, receiver.url("/ok"), 5)
    rows = send_until(database, lambda rows: sum(row.state == "delivered" for row in rows) == 5)
    assert sum(row.last_error is not None for row in rows) == 0


@ON_ALL_BACKENDS
def test_attempts_are_repeated_for_a_day(database: Database, stored: Deliveries) -> None:
    """With pauses from 5 s to an hour."""
    add(database, "http://hooks.test/")
    pauses, passed = [], 0.0
    while True:
        [taken] = stored.take(1)
        stored.settle(taken, SendResult(500, "replied 500"))
        [row] = of(database)
        if row.next_at is None:
            break
        with database.read() as connection:
            present: float = connection.execute(sa.select(now())).scalar_one()
        pauses.append(row.next_at - present)
        passed += pauses[-1]
        with database.write() as connection:  # let the pause pass
            at = table.c.created_at - pauses[-1]
            connection.execute(sa.update(table).values(created_at=at, next_at=now() - 1))
    assert pauses[:4] == pytest.approx([5, 10, 20, 40], abs=1)
    assert max(pauses) == pytest.approx(3600, abs=1)
    assert 22 * 3600 < passed <= 24 * 3600
    assert (row.state, row.attempts) == ("failed", len(pauses) + 1)


# Replicas and kills


@ON_ALL_BACKENDS
def test_several_senders_share_the_work(database: Database) -> None:
    """Each delivery is sent by one of them."""
    with receiving(status(204)) as receiver:
        ids = add(database, receiver.url("/"), 150)
        rows = send_until(database, delivered, *(sender(database) for _ in range(3)))
        assert sorted(receiver.ids()) == sorted(ids)
        assert {row.attempts for row in rows} == {1}


@ON_ALL_BACKENDS
def test_delivery_of_a_dead_sender_is_sent_by_another(
    database: Database, stored: Deliveries, receiver: Receiver
) -> None:
    """After its lease, with the same id; what the dead one would have written is refused."""
    [id] = add(database, receiver.url("/ok"))
    [taken] = stored.take(10)
    assert stored.take(10) == []
    make_due(database)
    send_until(database, delivered)
    stored.settle(taken, SendResult(500, "replied 500"))
    [row] = of(database)
    assert (row.state, row.last_error, row.attempts) == ("delivered", None, 2)
    assert receiver.ids() == [id]


def test_each_attempt_has_its_own_time_and_the_same_id(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 1.2)
    replies = [status(503), status(204)]
    with receiving(lambda handler: replies.pop(0)(handler)) as receiver:
        [id] = add(database, receiver.url("/"))
        send_until(database, delivered)
    first, second = receiver.requests
    assert receiver.ids() == [id, id]
    assert first.body == second.body
    assert first.headers["webhook-timestamp"] < second.headers["webhook-timestamp"]
    for request in (first, second):
        Webhook(WHSEC).verify(request.body, request.headers)


def test_both_secrets_sign_while_one_is_changed() -> None:
    """A receiver that has either accepts the request."""
    other = b"another secret, 32 bytes long ..."
    delivery = Delivery("msg_1", "job", 0, "", "{}", 1, None, None, None)
    headers = sign(delivery, [SECRET, other], int(time.time()))
    for secret in (SECRET, other):
        assert Webhook(base64.b64encode(secret).decode()).verify("{}", headers) == {}


# An idle service


def test_idle_sender_writes_nothing(
    database: Database, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads one number every few seconds, and sees what another process has written."""
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    statements = []

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    async def run() -> None:
        task = asyncio.create_task(sender(database).run())
        await asyncio.sleep(0.3)
        sa.event.listen(sa.Engine, "before_cursor_execute", note)
        await asyncio.sleep(0.5)
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
        await asyncio.to_thread(add, database, receiver.url("/ok"))
        await asyncio.to_thread(receiver.wait, 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert statements
    assert all(text.startswith(("BEGIN", "SELECT")) for text in statements)


def test_without_hosts_there_is_no_sender(database: Database, receiver: Receiver) -> None:
    add(database, receiver.url("/ok"))
    asyncio.run(asyncio.wait_for(sender(database, allowed="").run(), 5))
    assert receiver.requests == []


@ON_ALL_BACKENDS
def test_old_deliveries_are_removed(database: Database, stored: Deliveries) -> None:
    """A week after they were written; those that wait stay."""
    add(database, "http://hooks.test/", 2)
    [taken] = stored.take(1)
    stored.settle(taken, SendResult(204, None))
    stored.prune(0)
    assert len(of(database)) == 2
    with database.write() as connection:
        connection.execute(sa.update(table).values(created_at=now() - 90_000))
    stored.prune(0)
    assert [row.state for row in of(database)] == ["waiting"]
