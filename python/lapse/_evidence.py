# SPDX-License-Identifier: Apache-2.0
"""What is needed to understand how a program ended: uncaught exceptions, warnings,
os._exit(), and a Python stack when the interpreter crashes.

Hooks are chained: what was there before still runs, and prints what it would have
printed. Nothing here raises into the program. A hook that somebody has wrapped
meanwhile cannot be taken back; it is switched off and only passes on."""

from __future__ import annotations

import atexit
import faulthandler
import functools
import json
import os
import sys
import threading
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from . import _core, _environment, _redact

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import CodeType, TracebackType

    from ._run import Run

INFO, WARNING, ERROR = 1, 2, 3  # enum lapse_severity
ATTRS_MAX = 8192  # bytes of an event's JSON
TEXT_MAX = 4096  # bytes of an event's text
FORMAT_MAX = 1 << 20  # characters of a text that are looked at
EXCEPTIONS_MAX = 200  # events of a process; a loop may lose a thread a second
UNRAISABLE_MAX = 20
WARNINGS_MAX = 200
STATUS_INTERRUPT = 130  # what a shell calls the end by SIGINT

# ---- text that fits ------------------------------------------------------------------


def _clean(text: str) -> str:
    """UTF-8 without NUL."""
    return text.replace("\0", "\ufffd").encode("utf-8", "backslashreplace").decode("utf-8")


def _shorten(text: str) -> str:
    """Before the work of redacting and fitting; nobody sees the cut afterwards."""
    if len(text) <= FORMAT_MAX:
        return text
    return text[: FORMAT_MAX // 2] + "\n...\n" + text[-FORMAT_MAX // 2 :]


def _json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8"))


def _fit(text: str, maximum: int, size: Callable[[str], int] = _json_bytes) -> str:
    """Clean text of at most `maximum` bytes as `size` counts them: the beginning
    and, longer, the end."""
    text = _clean(text)
    if len(text) <= maximum and size(text) <= maximum:
        return text
    keep = min(len(text), maximum)
    while keep > 0:
        head = keep // 3
        gap = f"\n... {len(text) - keep} characters left out ...\n"
        cut = text[:head] + gap + text[len(text) - (keep - head) :]
        length = size(cut)
        if length <= maximum:
            return cut
        keep = min(keep - 1, keep * maximum // length - 1)
    return ""


def _bytes(text: str) -> int:
    return len(text.encode("utf-8"))


# ---- events ----------------------------------------------------------------------------


class _State:
    """What install() has changed."""

    def __init__(self) -> None:
        self.pid = 0  # of the process that called install(); 0: not installed
        self.hooks: list[tuple[Any, str, Any, Any, list[bool]]] = []
        self.exceptions = 0
        self.unraisable = 0
        self.warned: set[tuple[str, str, str, int]] = set()
        self.in_flight: tuple[int, type, str] | None = None  # the exception that was recorded last
        self.interrupted = False
        self.fault_fd = -1
        self.fault_pid = 0


_state = _State()
_busy = threading.local()


def _has_ring() -> bool:
    """A child of fork() has none before its first record."""
    return _core.stats()["ring_bytes"] > 0


def _event(severity: int, kind: str, text: str, attrs: dict[str, Any]) -> None:
    _core.event(severity, kind, _fit(text, TEXT_MAX, _bytes), json.dumps(attrs, ensure_ascii=False))
    _fault_follow()


# ---- exceptions --------------------------------------------------------------------------


def _code_name(code: CodeType) -> str:
    return str(getattr(code, "co_qualname", code.co_name))


def _where(tb: TracebackType | None) -> str:
    """file:line function of the innermost frame."""
    if tb is None:
        return ""
    while tb.tb_next is not None:
        tb = tb.tb_next
    code = tb.tb_frame.f_code
    return f"{code.co_filename}:{tb.tb_lineno} {_code_name(code)}"


def _type_name(kind: type[BaseException]) -> str:
    module = getattr(kind, "__module__", "builtins")
    name = getattr(kind, "__qualname__", str(kind))
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def _message(value: BaseException | None) -> str:
    try:
        return str(value) if value is not None else ""
    except Exception:
        return f"<{type(value).__name__} without a text: its __str__ failed>"


def _plain_traceback(kind: type[BaseException], tb: TracebackType | None) -> str:
    """Without source lines and chained exceptions, but it always works."""
    lines = []
    while tb is not None:
        code = tb.tb_frame.f_code
        lines.append(f'  File "{code.co_filename}", line {tb.tb_lineno}, in {code.co_name}\n')
        tb = tb.tb_next
    if len(lines) > 200:
        lines[100:-100] = [f"  ... {len(lines) - 200} frames left out ...\n"]
    return "Traceback (most recent call last):\n" + "".join(lines) + kind.__name__ + "\n"


def _traceback(
    kind: type[BaseException], value: BaseException | None, tb: TracebackType | None
) -> str:
    """As the interpreter prints it, with the exceptions that it is chained to."""
    # The module traceback may import others, and where these evaluate text the
    # interpreter forgets that it is to end by SIGINT.
    if issubclass(kind, KeyboardInterrupt):
        return _plain_traceback(kind, tb)
    try:
        text = "".join(traceback.format_exception(kind, value, tb))
    except Exception:  # no memory, too deep
        text = _plain_traceback(kind, tb)
    return _shorten(text)


def _tell(
    kind: type[BaseException],
    value: BaseException | None,
    tb: TracebackType | None,
    thread: str,
    severity: int = ERROR,
    **more: str,
) -> None:
    if issubclass(kind, SystemExit) or _state.exceptions >= EXCEPTIONS_MAX:
        return
    _state.exceptions += 1
    interrupt = issubclass(kind, KeyboardInterrupt)
    name = _type_name(kind)
    text = _redact.message(_shorten(_message(value)))
    attrs = {
        "type": _fit(name, 256),
        "message": _fit(text, 1024),
        "thread": _fit(thread, 128),
        "where": _fit(_where(tb), 512),
        **more,
    }
    spans = _core.spans_left(value) if value is not None else []
    if spans:
        attrs["spans"] = _fit(" > ".join(spans), 512)
    left = ATTRS_MAX - _bytes(json.dumps({**attrs, "traceback": ""}, ensure_ascii=False))
    attrs["traceback"] = _fit(_redact.message(_traceback(kind, value, tb)), left)
    _event(
        WARNING if interrupt else severity,
        "interrupt" if interrupt else "exception",
        f"{name}: {text}" if text else name,
        attrs,
    )


def _tell_safely(
    kind: type[BaseException], value: BaseException | None, *rest: Any, **more: Any
) -> None:
    """_tell() that cannot fail and does not enter itself."""
    if getattr(_busy, "on", False):
        return
    try:
        _busy.on = True
        _tell(kind, value, *rest, **more)
    except BaseException:
        try:  # Say at least that there was one.
            _core.event(ERROR, "exception", kind.__name__)
        except BaseException:
            pass
    finally:
        _busy.on = False


def _thread_name() -> str:
    if threading.get_ident() == threading.main_thread().ident:
        return "MainThread"
    return str(threading.get_native_id())


def _identity(value: BaseException) -> tuple[int, type, str]:
    """What an exception is known by, without keeping it and its frames alive. An id
    comes again, so that alone is not enough."""
    return id(value), type(value), _message(value)


def _is_recorded(value: BaseException) -> bool:
    """Was it the last that exception() recorded?"""
    last = _state.in_flight
    return last is not None and last[0] == id(value) and last == _identity(value)


def exception(value: BaseException, severity: int = ERROR, at: str = "end of the run") -> None:
    """An exception that leaves a block of the program; it may still be caught."""
    if not any(name == "excepthook" for _, name, _, _, _ in _state.hooks):
        return
    _state.in_flight = _identity(value)
    _state.interrupted = isinstance(value, KeyboardInterrupt)
    _tell_safely(type(value), value, value.__traceback__, _thread_name(), severity, at=at)


def _make_excepthook(previous: Any, on: list[bool]) -> Any:
    def excepthook(
        kind: type[BaseException], value: BaseException, tb: TracebackType | None, /
    ) -> None:
        if on[0]:
            if issubclass(kind, KeyboardInterrupt):
                _state.interrupted = True
            if not _is_recorded(value):
                _tell_safely(kind, value, tb, _thread_name())
        previous(kind, value, tb)

    return excepthook


def _make_thread_hook(previous: Any, on: list[bool]) -> Any:
    def excepthook(args: Any, /) -> None:
        if on[0]:
            name = args.thread.name if args.thread is not None else _thread_name()
            _tell_safely(args.exc_type, args.exc_value, args.exc_traceback, str(name))
        previous(args)

    return excepthook


def _make_unraisable_hook(previous: Any, on: list[bool]) -> Any:
    def unraisablehook(args: Any, /) -> None:
        if on[0] and _state.unraisable < UNRAISABLE_MAX:
            _state.unraisable += 1
            at = args.err_msg or "Exception ignored"
            _tell_safely(
                args.exc_type, args.exc_value, args.exc_traceback, _thread_name(), WARNING,
                at=_fit(str(at), 256),
            )  # fmt: skip
        previous(args)

    return unraisablehook


# ---- multiprocessing ----------------------------------------------------------------------------


def _is_child() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _tell_child() -> None:
    value = sys.exc_info()[1]
    # A worker that Ctrl-C stops is no news, and gets no ring for it.
    if value is None or (isinstance(value, KeyboardInterrupt) and not _has_ring()):
        return
    name = sys.modules["multiprocessing.process"].current_process().name
    at = _fit(f"end of {name}", 256)
    _tell_safely(type(value), value, value.__traceback__, _thread_name(), at=at)


def _make_print_exc(previous: Any, on: list[bool]) -> Any:
    """Multiprocessing prints the exception that ends a child by this function, and no
    hook sees it."""

    @functools.wraps(previous)
    def print_exc(*args: Any, **kwargs: Any) -> None:
        if on[0] and sys._getframe(1).f_globals.get("__name__") == "multiprocessing.process":
            _tell_child()
        previous(*args, **kwargs)

    return print_exc


# ---- warnings --------------------------------------------------------------------------------


def _tell_warning(message: Any, category: Any, filename: str, lineno: int) -> None:
    if getattr(_busy, "on", False) or len(_state.warned) >= WARNINGS_MAX:
        return
    try:
        _busy.on = True
        text = _redact.message(_shorten(str(message)))
        name = _type_name(category)
        key = (name, text, str(filename), int(lineno))
        if key in _state.warned:
            return
        _state.warned.add(key)
        attrs = {
            "category": _fit(name, 256),
            "message": _fit(text, 4096),
            "where": _fit(f"{filename}:{lineno}", 512),
        }
        _event(WARNING, "warning", f"{name}: {text}", attrs)
    except Exception:
        pass
    finally:
        _busy.on = False


def _make_warning_hook(previous: Any, on: list[bool]) -> Any:
    def showwarning(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if on[0]:
            _tell_warning(message, category, filename, lineno)
        # The module's own function cannot be given the object that a
        # ResourceWarning is about; its caller has it.
        if file is None and previous is getattr(warnings, "_showwarning_orig", None):
            whole = sys._getframe(1).f_locals.get("msg")
            show = getattr(warnings, "_showwarnmsg_impl", None)
            if show is not None and getattr(whole, "message", None) is message:
                show(whole)
                return
        previous(message, category, filename, lineno, file, line)

    return showwarning


# ---- os._exit(), sys.exit() ----------------------------------------------------------------------


def _tell_exit(status: int) -> None:
    """A worker that ends well is no event, and gets no ring for it."""
    ours = os.getpid() == _state.pid
    if status != 0 or (ours and not _is_child()):
        caller = sys._getframe(2)
        where = f"{caller.f_code.co_filename}:{caller.f_lineno} {_code_name(caller.f_code)}"
        _event(
            INFO if status == 0 else WARNING,
            "exit",
            f"os._exit({status})",
            {"status": status, "where": _fit(where, 512)},
        )
    if ours or _has_ring():
        _core.exit_status(status)
        _core.close()


def _make_exit(previous: Any, on: list[bool]) -> Any:
    def _exit(status: int) -> None:
        if on[0]:
            try:
                _tell_exit(status.__index__())
            except BaseException:
                pass
        previous(status)

    _exit.__doc__ = previous.__doc__
    return _exit


def _tell_text(text: str) -> None:
    """What is printed instead of a status; the status is 1."""
    if getattr(_busy, "on", False):
        return
    caller = sys._getframe(2)
    where = f"{caller.f_code.co_filename}:{caller.f_lineno} {_code_name(caller.f_code)}"
    text = _redact.message(_shorten(text))
    attrs = {"message": _fit(text, 1024), "thread": _thread_name(), "where": _fit(where, 512)}
    _event(WARNING, "exit", f"sys.exit: {text}", attrs)


def _make_sys_exit(previous: Any, on: list[bool]) -> Any:
    def exit(status: Any = None, /) -> None:
        if on[0] and status is not None and not isinstance(status, int):
            try:
                _tell_text(str(status))
            except Exception:
                pass
        previous(status)

    exit.__doc__ = previous.__doc__
    return exit


# ---- faulthandler --------------------------------------------------------------------------------


def _fault_open() -> None:
    """Let a crash write its stacks into the process's evidence file."""
    path = _core.evidence_path()
    if path is None:
        return
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        _fault_original("enable")(file=fd, all_threads=True)
    except BaseException:
        os.close(fd)
        raise
    old, _state.fault_fd, _state.fault_pid = _state.fault_fd, fd, os.getpid()
    if old >= 0:
        os.close(old)


def _fault_original(name: str) -> Any:
    for owner, attribute, _, previous, _ in _state.hooks:
        if owner is faulthandler and attribute == name:
            return previous
    return getattr(faulthandler, name)


def _fault_follow() -> None:
    """In a child of fork(): from the parent's file, where a crash is told until the
    child has a ring, to its own."""
    if _state.fault_fd < 0 or _state.fault_pid == os.getpid():
        return
    try:
        if faulthandler.is_enabled() and _has_ring():
            _fault_open()
    except Exception:
        pass


def _make_fault_hook(previous: Any, on: list[bool]) -> Any:
    def enable_or_disable(*args: Any, **kwargs: Any) -> Any:
        """The program takes faulthandler over: it is left alone from now on."""
        result = previous(*args, **kwargs)
        if on[0] and _state.fault_fd >= 0:
            os.close(_state.fault_fd)
            _state.fault_fd = -1
        return result

    enable_or_disable.__name__ = previous.__name__
    enable_or_disable.__doc__ = previous.__doc__
    return enable_or_disable


def _fault_install() -> None:
    if faulthandler.is_enabled():
        return
    try:
        _fault_open()
    except (OSError, RuntimeError):
        return
    _chain(faulthandler, "enable", _make_fault_hook)
    _chain(faulthandler, "disable", _make_fault_hook)


def _fault_uninstall() -> None:
    if _state.fault_fd < 0:
        return
    _fault_original("disable")()
    os.close(_state.fault_fd)
    _state.fault_fd = -1


# ---- together ------------------------------------------------------------------------------------


def _chain(owner: Any, name: str, make: Callable[[Any, list[bool]], Any]) -> None:
    previous = getattr(owner, name)
    on = [True]
    hook = make(previous, on)
    _state.hooks.append((owner, name, hook, previous, on))
    setattr(owner, name, hook)


_CHAINS: tuple[tuple[str, Any, str, Callable[[Any, list[bool]], Any]], ...] = (
    ("exceptions", sys, "excepthook", _make_excepthook),
    ("exceptions", threading, "excepthook", _make_thread_hook),
    ("exceptions", sys, "unraisablehook", _make_unraisable_hook),
    ("exceptions", traceback, "print_exc", _make_print_exc),
    ("warnings", warnings, "showwarning", _make_warning_hook),
    ("exit", os, "_exit", _make_exit),
    ("exit", sys, "exit", _make_sys_exit),
)


def install(run: Run, capture: bool | Collection[str]) -> None:
    """Put the hooks in; `capture` is True for all or names of some. Once: a second
    call does nothing until uninstall()."""
    global _state
    if _state.pid:
        return
    _state = _State()
    _state.pid = os.getpid()
    for name, owner, attribute, make in _CHAINS:
        if capture is True or (capture and name in capture):
            _chain(owner, attribute, make)
    if capture is True or (capture and "faulthandler" in capture):
        _fault_install()
    atexit.register(_at_exit)


def _at_exit() -> None:
    """The hooks stay to the very end. Python ends itself by the signal after Ctrl-C:
    nobody else says that this was an end in order."""
    _environment.finish()
    if _state.interrupted and _state.pid == os.getpid():
        _core.exit_status(STATUS_INTERRUPT)
        _core.close()


def _tell_in_flight() -> None:
    """`finally: lapse.finish()`: the ring will be closed when the hook sees it. Or it
    is an `except` that ends the run, so it is only a warning."""
    value = sys.exc_info()[1]
    if value is not None and not _is_recorded(value):
        exception(value, WARNING, "finish()")


def uninstall() -> None:
    """Take the hooks out, each only if it is still ours, and record what the last
    moment is for. Before the ring is closed."""
    _environment.finish()
    if not _state.pid:
        return
    try:
        atexit.unregister(_at_exit)
        _tell_in_flight()
        if _state.interrupted and _state.pid == os.getpid():
            _core.exit_status(STATUS_INTERRUPT)
        _fault_uninstall()
    except Exception:
        pass
    for owner, name, hook, previous, on in reversed(_state.hooks):
        on[0] = False
        if getattr(owner, name, None) is hook:
            setattr(owner, name, previous)
    _state.hooks.clear()
    _state.pid = 0
