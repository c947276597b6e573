"""The pure rules: values in, values out. Nothing here opens a connection."""
