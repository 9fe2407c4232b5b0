# SPDX-License-Identifier: Apache-2.0
"""A run that goes on until enough of it is stored: how soon that is, the machine says.

    with Held(lapse, "--config", path) as run:
        assert run.until(has("cpu/busy", 3))
    # it has ended and is stored
"""
import subprocess

from conftest import wait_for

LIMIT = 40  # seconds for what is waited for


def has(name, count=1):
    """Is there a series of this name, with so many values?"""
    return lambda run: any(s["name"] == name and s["count"] >= count
                           for s in run.get("series", []))


class Held:
    """`lapse run` of a command that ends when its input does: `cat`, which does nothing
    else and has no children, or another one."""

    def __init__(self, lapse, *options, command=("cat",)):
        self.lapse = lapse
        self.process = lapse.start("run", *options, "--", *command, stdin=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
            self.process.communicate()
        elif self.process.returncode is None:
            self.end()

    def until(self, enough):
        """Wait until enough(what is stored); the answer."""
        return wait_for(lambda: enough(self.lapse.shown()), LIMIT)

    def end(self, text=""):
        """Give it its last input and wait for the end of the run; what it wrote."""
        stdout, stderr = self.process.communicate(text)
        assert self.process.returncode == 0, stderr
        assert self.lapse.settled(LIMIT), "the run is not stored"
        return stdout
