"""The end of a listening socket: whoever has connected is served, nobody is reset."""

import errno
import select
import socket
import sys

import pytest

from mqueue.place import let_nobody_begin


@pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
def test_who_is_connected_stays_and_who_comes_is_neither_let_in_nor_reset() -> None:
    with socket.socket() as line, socket.socket() as late:
        line.bind(("127.0.0.1", 0))
        line.listen(8)
        with socket.create_connection(line.getsockname()) as early:
            let_nobody_begin(line)
            late.settimeout(0.3)
            with pytest.raises(TimeoutError):
                late.connect(line.getsockname())
            server, _ = line.accept()  # from the queue, after the filter
            line.close()
            with server:
                early.sendall(b"question")
                assert server.recv(8) == b"question"
                server.sendall(b"answer")
                assert early.recv(6) == b"answer"


@pytest.mark.skipif(sys.platform != "linux", reason="the filter is Linux's")
def test_who_came_too_late_is_refused_within_two_seconds() -> None:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        line.listen(8)
        let_nobody_begin(line)
        with socket.socket() as late:
            late.setblocking(False)
            late.connect_ex(line.getsockname())
            line.close()
            assert select.select([], [late], [], 2)[1]
            assert late.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
