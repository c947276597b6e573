from django.apps import AppConfig


class DaemonsConfig(AppConfig):
    name = "daemons"
