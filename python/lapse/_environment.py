# SPDX-License-Identifier: Apache-2.0
"""Where the program runs: interpreter, packages, machine, git, as attributes. What
takes long is read in a thread that nobody waits for; nothing is imported for it.

Nothing here raises, and what cannot be found out is absent."""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from . import _core, _redact

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

ATTR_MAX = 16384  # bytes of an attribute
DIFF_MAX = 65536  # bytes of the diff that are kept
GIT_SECONDS = 2.0  # for all calls of git together
WAIT_SECONDS = 0.05  # finish() waits that long for the thread
STATUS_MAX = 1 << 20  # bytes of `git status` that are read

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
    "MASTER_PORT", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
    "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS",
    "SLURM_NNODES", "SLURM_JOB_NODELIST", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV", "PYTHONHASHSEED",
)  # fmt: skip
VARIABLE_PREFIXES = ("PYTORCH_", "TORCH_", "NCCL_", "TORCHELASTIC_")
VARIABLES_MAX = 128


def _attr(key: str, text: str, maximum: int = ATTR_MAX) -> None:
    if text:
        text = text[:maximum].replace("\0", "\ufffd")
        _core.attr(key, text.encode("utf-8", "replace").decode("utf-8"))


def _read(path: str, maximum: int = 4096) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(maximum).decode("utf-8", "replace")
    except OSError:
        return ""


# ---- interpreter and machine ---------------------------------------------------------


def _python() -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info.releaselevel != "final":
        version += f" ({sys.version_info.releaselevel})"
    names = {"cpython": "CPython", "pypy": "PyPy"}
    name = names.get(sys.implementation.name, sys.implementation.name)
    return f"{name} {version}, {sys.executable or 'embedded'}"


def _system_name() -> str:
    for line in _read("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line[12:].strip("\"'")
    return ""


def _platform() -> str:
    uname = os.uname()
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        libc = ""
    parts = (f"{uname.sysname} {uname.release} {uname.machine}", _system_name(), libc)
    return ", ".join(part for part in parts if part)


def _driver() -> str:
    """Version of the NVIDIA driver: the first word like 535.104.05."""
    for word in _read("/proc/driver/nvidia/version").split("\n", 1)[0].split():
        parts = word.split(".")
        if len(parts) > 1 and all(part.isdigit() for part in parts):
            return word
    return ""


def _variables() -> Iterator[tuple[str, str]]:
    n = 0
    for name, text in sorted(os.environ.items()):
        if name not in VARIABLES and not name.startswith(VARIABLE_PREFIXES):
            continue
        yield f"env/var/{name}", _redact.value(name, text)
        n += 1
        if n == VARIABLES_MAX:
            return


def _argv() -> str:
    return _redact.command(getattr(sys, "orig_argv", None) or sys.argv)


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


# ---- torch, if it is there -----------------------------------------------------------


def _cudnn(modules: Mapping[str, Any]) -> str:
    # torch.backends.cudnn.version() would initialise CUDA: 0.2 s, and forked workers
    # could not use it any more.
    return ".".join(map(str, modules["torch._C._cudnn"].getRuntimeVersion()))


def _nccl(modules: Mapping[str, Any]) -> str:
    return ".".join(map(str, modules["torch.cuda.nccl"].version()))


_LIBRARIES: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("env/torch", lambda modules: str(vars(modules["torch"])["__version__"])),
    ("env/cuda", lambda modules: vars(modules["torch.version"])["cuda"] or ""),
    ("env/cudnn", _cudnn),
    ("env/nccl", _nccl),
)


def _torch() -> bool:
    """Versions of torch and what is below it, if it has been imported. They are
    asked of modules that are loaded; the GPU is not touched."""
    if "torch" not in sys.modules:
        return False
    for key, version in _LIBRARIES:
        try:
            _attr(key, version(sys.modules))
        except Exception:  # another version of torch, or one half imported
            continue
    return True


# ---- packages --------------------------------------------------------------------------


def _version_in(path: str) -> str:
    """Of an .egg-info whose name does not tell it."""
    text = _read(os.path.join(path, "PKG-INFO")) or _read(path)
    for line in text.splitlines():
        if line.startswith("Version:"):
            return line[8:].strip()
    return ""


def _package(entry: os.DirEntry[str]) -> tuple[str, str] | None:
    """Name and version, as the name of a folder of metadata tells them."""
    stem, kind = os.path.splitext(entry.name)
    if kind == ".dist-info":
        name, _, version = stem.rpartition("-")
    elif kind == ".egg-info":
        name, _, version = stem.partition("-")
        version = version.split("-py")[0] or _version_in(entry.path)
    else:
        return None
    return (name, version) if name and version and not name.startswith("~") else None


def _packages() -> str:
    """name==version of each installed distribution, sorted. The first on sys.path
    counts, as for `import`. Names as folders have them: "_" for "-"."""
    found: dict[str, str] = {}
    for folder in list(sys.path):
        try:
            with os.scandir(folder or ".") as entries:
                packages = [p for p in map(_package, entries) if p]
        except (OSError, TypeError):
            continue
        for name, version in packages:
            found.setdefault(name, version)
    lines = sorted((f"{k}=={v}" for k, v in found.items()), key=str.lower)
    text, size = [], 0
    for i, line in enumerate(lines):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > ATTR_MAX - 64:
            text.append(f"... and {len(lines) - i} more")
            break
        text.append(line)
    return "\n".join(text)


# ---- git ---------------------------------------------------------------------------------


def _reap(pid: int, deadline: float) -> int | None:
    """Exit status; None: it had to be killed, or somebody else has reaped it."""
    killed = False
    while True:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except OSError:
            return None
        if done:
            return None if killed else os.waitstatus_to_exitcode(status)
        if not killed and time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            killed = True
        if time.monotonic() > deadline + 1:
            return None
        time.sleep(0.001)


def _drain(fd: int, maximum: int, deadline: float) -> bytes:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    chunks: list[bytes] = []
    size = 0
    while size <= maximum:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            break
        chunk = os.read(fd, 65536)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def _git(folder: str, arguments: tuple[str, ...], maximum: int, deadline: float) -> str | None:
    """What git prints, cut behind `maximum` bytes; None: no git, no repository, too
    slow. Started without the module subprocess, whose import in a thread could
    leave a lock taken in a child that the program forks meanwhile."""
    argv = (
        "git", "--no-optional-locks", "--no-pager", "-C", folder, "-c", "core.fsmonitor=false",
        "-c", "core.quotePath=false", *arguments,
    )  # fmt: skip
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    ours, theirs = os.pipe()
    pid = None
    try:
        if theirs > 2:
            pid = os.posix_spawnp(
                "git", argv, environment,
                file_actions=(
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, theirs, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ),
                setsigmask=(), setsigdef=(signal.SIGPIPE,),
            )  # fmt: skip
    finally:
        os.close(theirs)
        output = _drain(ours, maximum, deadline) if pid else b""
        os.close(ours)
    status = _reap(pid, deadline) if pid else None
    if status != 0 and len(output) <= maximum:
        return None
    return output.decode("utf-8", "replace")


def _folders() -> list[str]:
    """Where the program's source may be: beside the script, else here."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    beside = os.path.dirname(os.path.abspath(script)) if script else ""
    return [folder for folder in dict.fromkeys((beside, _cwd())) if folder]


def _git_diff(folder: str, deadline: float) -> None:
    arguments = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv")
    text = _git(folder, arguments, DIFF_MAX, deadline)
    if not text:
        return
    data = _redact.diff(text).encode("utf-8", "replace")
    if len(data) > DIFF_MAX or len(text) > DIFF_MAX:
        note = b"\n[the diff is longer: cut here]\n"
        data = data[: DIFF_MAX - len(note)].decode("utf-8", "ignore").encode() + note
    n = 0
    while data:
        part = data[:ATTR_MAX].decode("utf-8", "ignore")
        _attr(f"git/diff/{n}" if n else "git/diff", part)
        data = data[len(part.encode("utf-8")) :]
        n += 1


def _is_other_local_rank() -> bool:
    """One diff a host is enough."""
    rank = os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or "0"
    return rank != "0"


def _git_all(folders: list[str]) -> None:
    deadline = time.monotonic() + GIT_SECONDS
    arguments = ("status", "--porcelain=v2", "--branch", "--untracked-files=no")
    for folder in folders:
        status = _git(folder, arguments, STATUS_MAX, deadline)
        if status:
            break
    else:
        return
    lines = status.splitlines()
    head = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# branch."))
    commit = head.get("branch.oid", "")
    dirty = any(not line.startswith("#") for line in lines)
    if commit != "(initial)":
        _attr("git/commit", commit)
    _attr("git/branch", head.get("branch.head", ""))
    _attr("git/dirty", "true" if dirty else "false")
    if dirty and commit != "(initial)" and not _is_other_local_rank():
        _git_diff(folder, deadline)


# ---- together ------------------------------------------------------------------------------

_lock = _thread.allocate_lock()  # held while the thread runs
_owner = 0  # pid of the process that started it
_torch_wanted = False


def _after_fork() -> None:
    """The thread is the parent's."""
    global _lock
    _lock = _thread.allocate_lock()


os.register_at_fork(after_in_child=_after_fork)


def _background(environment: bool, folders: list[str]) -> None:
    try:
        if environment:
            _attr("env/packages", _packages())
        _git_all(folders)
    except BaseException:  # nobody could do anything about it
        pass
    finally:
        _lock.release()


def record(capture: bool | Collection[str]) -> None:
    """Attributes env/... and git/... of this process. The quick ones at once, the
    others from a thread. About 0.3 ms."""
    global _owner, _torch_wanted
    environment = capture is True or (capture and "environment" in capture)
    git = capture is True or (capture and "git" in capture)
    try:
        if environment:
            _attr("env/python", _python())
            _attr("env/platform", _platform())
            _attr("env/argv", _argv())
            if not os.environ.get("LAPSE_RUN"):  # nobody else knows how the run began
                _attr("run.command", _argv())
            _attr("env/cwd", _cwd())
            _attr("env/driver", _driver())
            for key, text in _variables():
                _attr(key, text)
            _torch_wanted = not _torch()
        if (environment or git) and _lock.acquire(False):
            _owner = os.getpid()
            try:
                # At exit the main module no longer has a __file__.
                folders = _folders() if git else []
                _thread.start_new_thread(_background, (bool(environment), folders))
            except BaseException:
                _lock.release()
                raise
    except Exception:  # the program is not to know
        pass


def finish() -> None:
    """The last chance: versions of what was imported since, and a moment
    (WAIT_SECONDS) for what is nearly done."""
    global _torch_wanted
    if _owner != os.getpid():
        return
    try:
        if _torch_wanted:
            _torch_wanted = not _torch()
        if _lock.acquire(timeout=WAIT_SECONDS):
            _lock.release()
    except Exception:
        pass
