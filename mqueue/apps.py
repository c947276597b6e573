from django.apps import AppConfig


class MqueueConfig(AppConfig):
    name = "mqueue"

    def ready(self) -> None:
        from mqueue import checks  # noqa: F401  importing registers them
