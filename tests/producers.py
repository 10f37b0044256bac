"""DLPack producers that are made with ctypes and count the calls of their deleters."""

import ctypes
import itertools

import numpy as np

CPU, CUDA = (1, 0), (2, 0)
READ_ONLY, COPIED = 1, 2
INT, UINT, FLOAT, HANDLE, BFLOAT, COMPLEX, BOOL = range(7)
FLOAT8_E4M3FN = 10
_CODES = {"i": INT, "u": UINT, "f": FLOAT, "c": COMPLEX, "b": BOOL}


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Plain(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_alive = {}  # objects that C code points to, until the deleter is called
_numbers = itertools.count()
_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.c_void_p, ctypes.c_char_p)


class Producer:
    """An array of a library that supports only DLPack.

    Attributes
    ----------
    exported, deleted : int
        Numbers of exported tensors and of calls of their deleters.
    requests : list of dict
        The keywords of each call of ``__dlpack__``.
    """

    def __init__(self, array, *, versioned=True, flags=0, version=(1, 0), dtype=None, **changes):
        self.array, self.versioned, self.flags, self.version = array, versioned, flags, version
        self.dtype = dtype or (_CODES[array.dtype.kind], 8 * array.dtype.itemsize, 1)
        self.changes = changes  # replace fields of the tensor
        self.has_deleter = True
        self.device = CPU
        self.requests = []
        self._counts = {"exported": 0, "deleted": 0}

    exported = property(lambda self: self._counts["exported"])
    deleted = property(lambda self: self._counts["deleted"])

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, max_version=None, **keywords):
        self.requests.append({"max_version": max_version, **keywords})
        return self.capsule()

    def capsule(self):
        # The functions below must not keep the producer alive.
        array, number, counts, alive = self.array, next(_numbers), self._counts, _alive
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        size = array.dtype.itemsize
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*(s // size for s in array.strides))
        fields = {
            "data": array.ctypes.data,
            "device_type": self.device[0],
            "device_id": self.device[1],
            "ndim": array.ndim,
            "shape": ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)),
            "strides": ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)),
            **dict(zip(("code", "bits", "lanes"), self.dtype, strict=True)),
            **self.changes,
        }
        tensor = _Tensor(**fields)

        def delete(pointer):
            assert pointer == ctypes.addressof(managed)
            counts["deleted"] += 1
            del alive[number]

        deleter = _Deleter(delete) if self.has_deleter else _Deleter()
        if self.versioned:
            managed = _Versioned(*self.version, None, deleter, self.flags, tensor)
        else:
            managed = _Plain(tensor, None, deleter)
        address = ctypes.addressof(managed)
        alive[number] = (array, shape, strides, managed, deleter)
        counts["exported"] += 1

        def destroy(capsule):
            if _is_valid(capsule, name) and deleter:
                deleter(address)

        destructor = _Destructor(destroy)
        _destructors.append((destructor, name))
        return _new(address, name, destructor)


_destructors = []  # never released, because C code may call them at the end of the process


class OldProducer(Producer):
    """A producer from before DLPack 1.0, whose ``__dlpack__`` has no ``max_version``."""

    def __init__(self, array, **keywords):
        super().__init__(array, versioned=False, **keywords)

    def __dlpack__(self, *, stream=None):
        self.requests.append({"stream": stream})
        return self.capsule()


class Capsuled:
    """An object whose ``__dlpack__`` returns a given capsule."""

    def __init__(self, capsule, device=CPU):
        self._capsule, self._device = capsule, device

    def __dlpack_device__(self):
        return self._device

    def __dlpack__(self, **keywords):
        return self._capsule


def layouts():
    """2-D arrays by name: contiguous, sliced, negative strides, an offset, and no elements."""
    base = np.arange(7 * 10, dtype=np.float32).reshape(7, 10)
    return {
        "contiguous": base.copy(),
        "transposed": base.T,
        "sliced": base[::2, 1::3],
        "rows": base[:, 2:7],
        "negative": base[::-1, ::-2],
        "offset": base.reshape(-1)[3:63].reshape(6, 10),
        "broadcast": np.broadcast_to(base[0], (4, 10)),
        "one row": base[3:4, ::2],
        "empty": base[:0],
    }
