# SPDX-License-Identifier: Apache-2.0
"""A terminal for tests: a program as session leader on a pseudo-terminal, what
it wrote so far, and keys for it."""
import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time


class Terminal:
    """Run argv on a pseudo-terminal of 24 x 80. Use as a context manager: it is
    killed at the end."""

    def __init__(self, argv, env, cwd, setup=None):
        self.data = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                if setup:
                    setup()
                os.execvpe(argv[0], argv, env)
            finally:
                os._exit(99)
        self.status = None
        self.resize(24, 80)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        os.close(self.fd)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def _read(self, seconds):
        """More output; False when nothing came in time or nobody is left."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return None
        try:
            more = os.read(self.fd, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            more = b""
        self.data += more
        return bool(more)

    def expect(self, text, timeout=40, since=0):
        """Wait until text was written behind position since; the position behind it."""
        text = text if isinstance(text, bytes) else text.encode()
        end = time.monotonic() + timeout
        while True:
            at = self.data.find(text, since)
            if at >= 0:
                return at + len(text)
            left = end - time.monotonic()
            assert left > 0 and self._read(left) is not False, \
                f"no {text!r} behind {since} in {self.data!r}"

    def end(self, timeout=40):
        """Wait for the program's end; its wait status."""
        end = time.monotonic() + timeout
        while True:
            more = self._read(0.02)
            if self.status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.status = status
            if self.status is not None and not more:
                return self.status
            assert time.monotonic() < end, f"still runs: {self.data!r}"
