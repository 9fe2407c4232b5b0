# SPDX-License-Identifier: Apache-2.0
"""A span as a decorator. The wrapped thing stays what it was: a function, a
coroutine function, a generator or an asynchronous generator function."""
from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable

from . import _core

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from ._core import Span


def wrap(span: Span, function: Any) -> Any:
    """`function` with a span around each call. A coroutine's span lasts from its
    start to its end, waits included; a generator has a span for each item: the
    time that it takes to make it, not the time that its user spends on it."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(wrap(span, function.__func__))
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"lapse.span() decorates functions, not {type(function).__name__}")
    if inspect.isasyncgenfunction(function):
        return _asyncgen(span, function)
    if inspect.iscoroutinefunction(function):
        return _coroutine(span, function)
    if inspect.isgeneratorfunction(function):
        return _generator(span, function)
    return _function(span, function)


def _function(span: Span, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with span:
            return function(*args, **kwargs)

    return _core.quicken(wrapper)


def _coroutine(span: Span, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        token = span.begin()
        try:
            return await function(*args, **kwargs)
        finally:
            span.end(token)

    return wrapper


def _generator(span: Span, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        advance, value = generator.send, None
        while True:
            try:
                with span:
                    item = advance(value)
            except StopIteration as stop:
                return stop.value
            try:
                advance, value = generator.send, (yield item)
            except GeneratorExit:
                with span:
                    generator.close()
                raise
            except BaseException as error:
                advance, value = generator.throw, error

    return wrapper


def _asyncgen(span: Span, function: Callable[..., Any]) -> Callable[..., Any]:
    async def timed(advance: Callable[[Any], Any], value: Any) -> Any:
        token = span.begin()
        try:
            return await advance(value)
        finally:
            span.end(token)

    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        advance, value = generator.asend, None
        while True:
            try:
                item = await timed(advance, value)
            except StopAsyncIteration:
                return
            try:
                advance, value = generator.asend, (yield item)
            except GeneratorExit:
                await generator.aclose()
                raise
            except BaseException as error:
                advance, value = generator.athrow, error

    return wrapper
