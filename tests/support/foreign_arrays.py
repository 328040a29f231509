"""Arrays of other libraries, as far as tilejit reads them, around NumPy arrays."""


class Tensor:
    """What tilejit reads of a torch tensor, around a NumPy array."""

    def __init__(self, array, device="cuda:0", dtype=None):
        self.array = array
        self.shape = array.shape
        self.dtype = dtype or f"torch.{array.dtype.name}"
        self.device = device

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)


class Interface:
    """An array of CuPy's kind."""

    def __init__(self, array, **changes):
        data = (array.ctypes.data, not array.flags.writeable)
        self.__cuda_array_interface__ = {
            "data": data, "shape": array.shape, "typestr": array.dtype.str, "strides": None, "version": 3, **changes
        }


class Exporter:
    """An array that speaks DLPack only."""

    def __init__(self, array, versioned=True):
        self.array = array
        self.versioned = versioned

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, max_version=None):
        if not self.versioned and max_version is not None:
            raise TypeError("unexpected keyword max_version")
        # NumPy before 2.1 exports DLPack before 1
        return self.array.__dlpack__(**({} if max_version is None else {"max_version": max_version}))
