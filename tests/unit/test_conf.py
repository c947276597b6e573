"""The environment, read once."""

import stat
import threading
from pathlib import Path

import pytest

from mqueue.core.conf import ConfError, kept_secret, read, redacted
from tests.certificates import certificate

SECRET = {"JWT_SECRET": "s" * 40}


def test_nothing_set_means_embedded_servers_under_the_data_folder(tmp_path: Path) -> None:
    conf = read(SECRET | {"MQUEUE_DATA": str(tmp_path)})
    assert conf.embedded.postgres
    assert conf.embedded.redis
    assert len(conf.shard_urls) == 2
    assert conf.embedded.state.is_relative_to(tmp_path)
    assert conf.wal_dir == tmp_path / "wal"
    assert conf.wal_bytes == 256 << 20
    assert (conf.api.port, conf.api.metrics_port, conf.api.metrics_host) == (8080, 2112, "127.0.0.1")
    assert conf.auto_create_namespaces


def test_mqueue_shards_sets_the_number_of_embedded_shards() -> None:
    assert len(read(SECRET | {"MQUEUE_SHARDS": "5"}).shard_urls) == 5


def test_urls_that_are_set_mean_servers_of_ones_own() -> None:
    conf = read(SECRET | {"DATABASE_URLS": "postgresql://u@h/a, postgres://u@h/b", "REDIS_URL": "redis://r"})
    assert conf.shard_urls == ("postgresql://u@h/a", "postgres://u@h/b")
    assert not conf.embedded.postgres
    assert not conf.embedded.redis


def test_a_comma_inside_a_url_does_not_end_it() -> None:
    conf = read(SECRET | {"DATABASE_URLS": "postgresql://u@h1:1,h2:2/a,postgresql://u@h3/b"})
    assert conf.shard_urls == ("postgresql://u@h1:1,h2:2/a", "postgresql://u@h3/b")


@pytest.mark.parametrize(
    ("shard", "control"),
    [
        ("postgresql://u:p@h:5432/a", "postgresql://u:p@h:5432/a_control"),
        ("postgresql://u@h/a?sslmode=require", "postgresql://u@h/a_control?sslmode=require"),
        ("postgresql:///a?host=%2Ftmp", "postgresql:///a_control?host=%2Ftmp"),
    ],
)
def test_the_control_database_lies_on_the_first_shards_server(shard: str, control: str) -> None:
    assert read(SECRET | {"DATABASE_URLS": shard + ",postgresql://other/b"}).control_url == control


def test_the_control_database_can_be_named() -> None:
    conf = read(SECRET | {"DATABASE_URLS": "postgresql://h/a", "CONTROL_DATABASE_URL": "postgresql://c/d"})
    assert conf.control_url == "postgresql://c/d"


def test_quotas_are_namespace_and_amount() -> None:
    assert dict(read(SECRET | {"NAMESPACE_QUOTAS": "a=100, b=20"}).namespace_quotas) == {"a": 100, "b": 20}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MQUEUE_PORT", "0"),
        ("MQUEUE_PORT", "http"),
        ("METRICS_PORT", "70000"),
        ("MQUEUE_SHARDS", "0"),
        ("DATABASE_URLS", "mysql://h/a"),
        ("DATABASE_URLS", "postgresql://h/a,postgresql://h/a"),
        ("CONTROL_DATABASE_URL", "postgresql://h/a,postgresql://h/b"),
        ("NAMESPACE_QUOTAS", "a"),
        ("NAMESPACE_QUOTAS", "A=1"),
        ("AUTO_CREATE_NAMESPACES", "perhaps"),
        ("TLS_CERT_FILE", "/does/not/exist"),
        ("REDIS_SENTINELS", "h:1"),
        ("MQUEUE_HOST", "example.org"),
        ("METRICS_HOST", "*"),
        ("REDIS_URL", "localhost:6379"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(variable: str, value: str) -> None:
    with pytest.raises(ConfError, match=variable if variable != "REDIS_SENTINELS" else "REDIS_MASTER"):
        read(SECRET | {variable: value})


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfError, match=r"MQUEUE_PORT.*METRICS_PORT"):
        read(SECRET | {"MQUEUE_PORT": "x", "METRICS_PORT": "y"})


def test_tls_needs_a_certificate_and_its_key_in_any_form(tmp_path: Path) -> None:
    certificate(tmp_path, "a")
    certificate(tmp_path, "b")
    files = {"TLS_CERT_FILE": str(tmp_path / "a.crt"), "TLS_KEY_FILE": str(tmp_path / "a.key")}
    assert read(SECRET | files).api.origin == "https://127.0.0.1:8080"
    with pytest.raises(ConfError, match="TLS_KEY_FILE is missing"):
        read(SECRET | {"TLS_CERT_FILE": files["TLS_CERT_FILE"]})
    with pytest.raises(ConfError, match="no certificate with its key"):
        read(SECRET | files | {"TLS_KEY_FILE": str(tmp_path / "b.key")})
    assert read(SECRET | files | {"TLS_KEY_FILE": str(tmp_path / "a.old.key")}).api.tls_key


def test_an_empty_secret_file_is_not_taken_for_a_secret(tmp_path: Path) -> None:
    (tmp_path / "jwt_secret").touch()
    with pytest.raises(ConfError, match="is empty"):
        read({"MQUEUE_DATA": str(tmp_path)})


def test_the_two_ports_cannot_be_one() -> None:
    with pytest.raises(ConfError, match="METRICS_PORT is the same as MQUEUE_PORT"):
        read(SECRET | {"MQUEUE_PORT": "2112"})


def test_localhost_is_an_address() -> None:
    assert read(SECRET | {"MQUEUE_HOST": "localhost"}).api.host == "127.0.0.1"
    assert read(SECRET | {"MQUEUE_HOST": "::"}).api.origin == "http://127.0.0.1:8080"


def test_no_secret_shows_when_the_configuration_is_printed() -> None:
    conf = read(
        {"JWT_SECRET": "topsecret" * 5, "DATABASE_URLS": "postgresql://u:hidden@h/a", "REDIS_PASSWORD": "hidden"}
    )
    assert "hidden" not in repr(conf)
    assert "topsecret" not in repr(conf)
    assert redacted("postgresql://u:hidden@h/a") == "postgresql://u:***@h/a"


def test_a_password_in_a_malformed_url_is_not_repeated() -> None:
    with pytest.raises(ConfError) as caught:
        read(SECRET | {"DATABASE_URLS": "mysql://u:hidden@h/a"})
    assert "hidden" not in str(caught.value)


def test_django_gets_a_secret_of_its_own() -> None:
    one, other = read({"JWT_SECRET": "a" * 40}), read({"JWT_SECRET": "b" * 40})
    assert one.django_secret != other.django_secret
    assert one.jwt_secret not in one.django_secret


def test_a_random_secret_is_made_once_and_kept_private(tmp_path: Path) -> None:
    first = read({"MQUEUE_DATA": str(tmp_path)}).jwt_secret
    assert len(first) >= 40
    assert read({"MQUEUE_DATA": str(tmp_path)}).jwt_secret == first
    assert stat.S_IMODE((tmp_path / "jwt_secret").stat().st_mode) == 0o600
    assert read({"MQUEUE_DATA": str(tmp_path / "other")}).jwt_secret != first


def test_racing_processes_agree_on_the_random_secret(tmp_path: Path) -> None:
    found, barrier = [], threading.Barrier(8)

    def make() -> None:
        barrier.wait()
        found.append(kept_secret(tmp_path))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["jwt_secret"]
