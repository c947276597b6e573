from django.apps import AppConfig


class StoreConfig(AppConfig):
    name = "shards.store"
    label = "store"
