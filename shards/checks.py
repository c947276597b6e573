"""What `manage.py check` says about the configuration. Connections are tried only with `--database`."""
