"""The write-ahead log of buffered messages: files of one process each, on its node's disk. No server is known here."""
