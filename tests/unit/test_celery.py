"""How Celery finds its broker."""

import pytest
from kombu.utils.url import parse_url

from mqueue.celery import broker
from mqueue.core.conf import read

SECRET = {"JWT_SECRET": "s" * 40}
PASSWORD = "p@s/w#1:?"


@pytest.mark.parametrize("url", ["redis://h:6379/2", "rediss://h/2"])
def test_a_password_of_any_characters_arrives(url: str) -> None:
    parts = parse_url(broker(read(SECRET | {"REDIS_URL": url, "REDIS_PASSWORD": PASSWORD}))["broker_url"])
    assert (parts["hostname"], parts["password"], parts["virtual_host"]) == ("h", PASSWORD, "2")


def test_a_password_in_the_url_is_left_alone() -> None:
    url = "redis://:own@h:6379/0"
    assert broker(read(SECRET | {"REDIS_URL": url, "REDIS_PASSWORD": "other"}))["broker_url"] == url


def test_sentinels_are_all_named() -> None:
    settings = {"REDIS_SENTINELS": "a:1,b:2", "REDIS_MASTER": "m", "REDIS_PASSWORD": PASSWORD}
    made = broker(read(SECRET | settings))
    assert [parse_url(url)["hostname"] for url in made["broker_url"].split(";")] == ["a", "b"]
    assert {parse_url(url)["password"] for url in made["broker_url"].split(";")} == {PASSWORD}
    assert made["broker_transport_options"]["master_name"] == "m"


def test_a_socket_keeps_its_path_database_and_password() -> None:
    url = broker(read(SECRET | {"REDIS_URL": "unix:///run/v.sock?db=3", "REDIS_PASSWORD": "p"}))["broker_url"]
    assert url == "redis+socket://:p@/run/v.sock?virtual_host=3"
