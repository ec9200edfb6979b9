"""Compiled functions that XLA can call: typed FFI handlers written in numba, no C compiler needed.

XLA hands a handler the address of a *call frame*, a C structure of 8-byte words. The positions
below are those of the typed FFI's binary interface, version 0.x.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from llvmlite import binding, ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

_EXTENSION, _ARGUMENTS, _RESULTS = 1, 9, 14  # words of the call frame
_DATA, _RANK, _DIMENSIONS = 3, 4, 5  # words of a buffer
_EXTENSION_TYPE, _IS_METADATA, _METADATA, _VERSION = 1, 1, 3, 3  # of the extension, and of the metadata it points to
_LOW_HALF = 0xFFFFFFFF  # the type is a 32-bit number; what follows it is undefined
_API_VERSION = 0 | (1 << 32)  # major, minor: the oldest that XLA accepts, whose layout later ones keep
LAYOUT = (
    _EXTENSION,
    _ARGUMENTS,
    _RESULTS,
    _DATA,
    _RANK,
    _DIMENSIONS,
    _EXTENSION_TYPE,
    _METADATA,
    _VERSION,
    _API_VERSION,
)
"""All that is taken for granted of XLA's interface."""

INNER = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that are called from compiled code alone.

No "fast" arithmetic: numba links such functions in one way when it compiles their caller and in another when it finds
the caller in its cache, and what may be reordered then comes out with other bits.
"""
SIGNATURE = types.int64(types.int64)
"""Signature of a handler: address of the call frame in, zero (no error) out."""


@intrinsic
def _doubles_at(typingctx: Any, address: Any) -> Any:
    return _pointer_cast(types.float64)


@intrinsic
def _words_at(typingctx: Any, address: Any) -> Any:
    return _pointer_cast(types.int64)


def _pointer_cast(element: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = ir.PointerType(context.get_value_type(element))
        return builder.inttoptr(args[0], target)

    return types.CPointer(element)(types.int64), codegen


@njit(**INNER)
def words(address: int, count: int) -> Any:
    """View of ``count`` 8-byte integers at ``address``."""
    return carray(_words_at(address), (count,))


@njit(**INNER)
def is_registration(frame_address: int) -> bool:
    """Whether XLA only asks which version of the interface the handler speaks; answers it if so."""
    address = words(frame_address, 16)[_EXTENSION]
    if address == 0 or (words(address, 4)[_EXTENSION_TYPE] & _LOW_HALF) != _IS_METADATA:
        return False
    words(words(address, 4)[_METADATA], 4)[_VERSION] = _API_VERSION
    return True


@njit(**INNER)
def _buffer(frame_address: int, kind: int, index: int) -> int:
    return words(words(frame_address, 16)[kind], 64)[index]


@njit(**INNER)
def argument(frame_address: int, index: int) -> Any:
    """Flat view of an argument of type float64."""
    return _flat(_buffer(frame_address, _ARGUMENTS, index))


@njit(**INNER)
def result(frame_address: int, index: int) -> Any:
    """Flat view of a result of type float64."""
    return _flat(_buffer(frame_address, _RESULTS, index))


@njit(**INNER)
def integers(frame_address: int, index: int) -> Any:
    """Flat view of an argument of type int64."""
    buffer = words(_buffer(frame_address, _ARGUMENTS, index), 8)
    return words(buffer[_DATA], _size(buffer))


@njit(**INNER)
def last_dimension(frame_address: int, index: int) -> int:
    """Length of the last axis of an argument."""
    buffer = words(_buffer(frame_address, _ARGUMENTS, index), 8)
    return words(buffer[_DIMENSIONS], buffer[_RANK])[buffer[_RANK] - 1]


@njit(**INNER)
def _flat(buffer_address: int) -> Any:
    buffer = words(buffer_address, 8)
    return carray(_doubles_at(buffer[_DATA]), (_size(buffer),))


@njit(**INNER)
def _size(buffer: Any) -> int:
    size = 1
    for dimension in words(buffer[_DIMENSIONS], buffer[_RANK]):
        size *= dimension
    return size


FIELD_SIGNATURE = types.void(types.float64, *([types.CPointer(types.float64)] * 4))
"""Signature of every function of a vector field: one number and four arrays of float64 (see ``fields``)."""


@intrinsic
def call_field(typingctx: Any, address: Any, number: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Call the function at ``address`` with a number and the addresses of four arrays."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        double = ir.DoubleType()
        kind = ir.FunctionType(ir.VoidType(), [double, *[ir.PointerType(double)] * 4])
        function = builder.inttoptr(args[0], ir.PointerType(kind))
        pointers = [builder.inttoptr(word, ir.PointerType(double)) for word in args[2:]]
        builder.call(function, [args[1], *pointers])
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, *([types.int64] * 4)), codegen


def shared_address(symbol: str, array: np.ndarray) -> Any:
    """A function for compiled code that gives the address of ``array``, which must outlive it.

    Code refers to it by the name ``symbol``, not by a number, so that it can be kept for other processes.
    """
    binding.add_symbol(symbol, array.ctypes.data)

    @intrinsic
    def address(typingctx: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            place = builder.module.globals.get(symbol) or ir.GlobalVariable(builder.module, ir.IntType(64), symbol)
            return builder.ptrtoint(place, ir.IntType(64))

        return types.int64(), codegen

    return address


_registered: dict[str, Any] = {}  # handlers must outlive every caller
_registering = threading.Lock()


def register(name: str, serve: Callable[[int], int], cached: bool = True) -> None:
    """Let XLA call ``serve(frame)`` under ``name``; compiled on first use, found in numba's cache afterwards.

    ``serve`` is a function of a module, neither a closure nor compiled; it begins by asking :func:`is_registration`.
    Callers see to it that XLA can (:mod:`.availability`).
    """
    with _registering:  # fits may run in several threads
        if name not in _registered:
            handler = cfunc(SIGNATURE, cache=cached, error_model="numpy")(serve)
            address: Any = handler.address
            function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(function), platform="cpu")
            _registered[name] = handler
