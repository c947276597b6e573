from django.apps import AppConfig


class ShardsConfig(AppConfig):
    name = "shards"

    def ready(self) -> None:
        from shards import checks  # noqa: F401  registers them
