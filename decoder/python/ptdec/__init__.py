# SPDX-License-Identifier: BSD-3-Clause
"""What ran, according to a trace of Intel Processor Trace: items, names and times.

    import ptdec

    for item in ptdec.open("demo.pt"):
        if item.type == "BLOCK":
            print(item.time, item.function, item.insns)

The library libptdec decodes; ptdec.h is its reference, and what has a name there has the same here:
item.type "BLOCK" is PTD_ITEM_BLOCK. Numbers of the header are in the module (ptdec.ANY_CR3 is
PTD_ANY_CR3), and all of it is ptdec.lib and ptdec.ffi. Times are TSC values.
"""
import json
import os
import stat

from ._declared import SONAME, ffi

__all__ = ["ANY_CR3", "Error", "Image", "Item", "Packet", "Trace", "lib", "ffi", "open"]

# Another one may be named, as by who builds the library without installing it.
lib = ffi.dlopen(os.environ.get("PTDEC_LIBRARY") or SONAME)

ANY_CR3 = lib.PTD_ANY_CR3
# What files that a trace names may take together, since who wrote the trace chose them.
FILE_BYTES = 1 << 30
SIDECAR_BYTES = 8 << 20
PIECE_BYTES = 1 << 20


def _names(enum, prefix):
    return {value: name[len(prefix):] for value, name in ffi.typeof(f"enum {enum}").elements.items()}


_TYPES = _names("ptd_item_type", "PTD_ITEM_")
_CLASSES = _names("ptd_insn_class", "PTD_INSN_")
_MODES = {16: lib.PTD_MODE_16, 32: lib.PTD_MODE_32, 64: lib.PTD_MODE_64}


class Error(Exception):
    """A function of the library failed; .code is its enum ptd_error."""

    def __init__(self, code, what=None):
        text = ffi.string(lib.ptd_strerror(code)).decode()
        super().__init__(f"{what}: {text}" if what else text)
        self.code = code


def _check(result, what=None):
    if result < 0:
        raise Error(result, what)
    return result


def _owned(pointer, free):
    """An object of the library that goes when Python's last reference does."""
    if not pointer:
        raise MemoryError
    return ffi.gc(pointer, free)


def _open_regular(path):
    """Nothing waits for a FIFO or touches a device, whatever a trace names."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path}: it is not a regular file")
    return fd


def _read_regular(path, limit_bytes):
    with os.fdopen(_open_regular(path), "rb") as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise Error(lib.PTD_E_LIMIT, path)
    return content


class Image:
    """Code and its names, by address space."""

    def __init__(self):
        self._image = _owned(lib.ptd_image_new(), lib.ptd_image_free)
        self._files = []  # the library's, which have to live as long as the image
        self._budget = FILE_BYTES
        self._symbols = {}

    def _changed(self):
        self._symbols.clear()

    def add_bytes(self, vaddr, code, name=None, cr3=ANY_CR3):
        """Code at an address; name is that of all of it."""
        text = name.encode() if name is not None else ffi.NULL
        _check(lib.ptd_image_add_bytes(self._image, text, vaddr, code, len(code), cr3))
        self._changed()

    def add_elf(self, path, bias=0, cr3=ANY_CR3):
        """The code and the symbols of an ELF file, bias bytes above its own addresses."""
        self._add(path, lib.ptd_file_new_elf, bias, cr3)

    def add_kallsyms(self, path, cr3=ANY_CR3):
        """The names of a copy of /proc/kallsyms, for code that was added before and has none."""
        self._add(path, lib.ptd_file_new_kallsyms, 0, cr3)

    def _add(self, path, new, bias, cr3):
        place = ffi.new("struct ptd_file **")
        fd = _open_regular(path)
        try:
            result = new(fd, self._budget, place)
        finally:
            os.close(fd)
        _check(result, path)
        file = _owned(place[0], lib.ptd_file_free)
        self._files.append(file)
        self._budget -= min(self._budget, lib.ptd_file_bytes(file))
        _check(lib.ptd_image_add_file(self._image, file, bias, cr3), path)
        self._changed()

    def add_code_log(self, content):
        """The code of a capture as it was when it ran; of one trace, so one Trace at a time."""
        _check(lib.ptd_image_add_code_log(self._image, content, len(content)))
        self._changed()

    def symbol(self, vaddr, cr3=ANY_CR3):
        """The function at an address, and how far into it; None: none is known."""
        offset = ffi.new("uint64_t *")
        name = lib.ptd_image_symbol(self._image, cr3, vaddr, offset)
        return (ffi.string(name).decode(errors="replace"), offset[0]) if name else None

    def function(self, vaddr, cr3=ANY_CR3):
        """The name of the function at an address, or None. What was found is kept."""
        key = vaddr, cr3
        if key not in self._symbols:
            if len(self._symbols) > 1 << 20:
                self._symbols.clear()
            found = self.symbol(vaddr, cr3)
            self._symbols[key] = found and found[0]
        return self._symbols[key]

    def instructions(self, item):
        """Address and text of each instruction of a block."""
        at, insn = ffi.new("uint64_t *", item.ip), ffi.new("struct ptd_insn *")
        code, available, text = ffi.new("uint8_t **"), ffi.new("size_t *"), ffi.new("char[128]")
        while True:
            result = lib.ptd_block_insn(self._image, item.raw, at, insn)
            if result == lib.PTD_END:
                return
            _check(result)
            found = lib.ptd_image_find(self._image, item.cr3, insn.ip, code, available)
            # An instruction may cross from one piece of code to another, which is not shown as text.
            if found or lib.ptd_insn_format(item.raw.mode, insn.ip, code[0], available[0], text, len(text)):
                yield insn.ip, "?"
            else:
                yield insn.ip, ffi.string(text).decode()


class Item:
    """What happened next: struct ptd_item, and when. Attributes that its type has not are None."""

    __slots__ = ("_image", "_point", "raw")

    def __init__(self, image, raw, point):
        self._image = image
        self._point = point
        self.raw = raw  # the struct itself, with all of its members

    @property
    def type(self):
        return _TYPES[self.raw.type]

    @property
    def offset(self):
        """Where in the trace: of the packet, or of the next packet for a block."""
        return self.raw.offset

    @property
    def cr3(self):
        return self.raw.cr3

    @property
    def nr(self):
        """Whether a guest ran (VMX non-root operation)."""
        return bool(self.raw.nr)

    @property
    def ip(self):
        """The first instruction of a block."""
        return self.raw.ip if self.raw.type == lib.PTD_ITEM_BLOCK else None

    @property
    def last_ip(self):
        return self.raw.last_ip if self.raw.type == lib.PTD_ITEM_BLOCK else None

    @property
    def end(self):
        """The address behind a block: where the RET of a CALL at its end goes."""
        return self.last_ip + self.raw.last_bytes if self.raw.type == lib.PTD_ITEM_BLOCK else None

    @property
    def insns(self):
        """How many instructions ran; 0 of what is no block."""
        return self.raw.insns if self.raw.type == lib.PTD_ITEM_BLOCK else 0

    @property
    def last_class(self):
        """What the last instruction of a block is: "CALL_DIRECT", "RET", ..."""
        return _CLASSES[self.raw.last_class] if self.raw.type == lib.PTD_ITEM_BLOCK else None

    @property
    def from_ip(self):
        return getattr(self.raw, "from") if self.raw.has_from else None

    @property
    def to_ip(self):
        return self.raw.to if self.raw.has_to else None

    @property
    def value(self):
        return self.raw.value

    @property
    def error(self):
        """Of an ERROR, what was wrong; .value bytes were lost."""
        if self.raw.type != lib.PTD_ITEM_ERROR:
            return None
        return ffi.string(lib.ptd_strerror(self.raw.error)).decode()

    @property
    def function(self):
        """The function that a block is in, or that an event went to or came from; None: not known."""
        raw = self.raw
        if raw.type == lib.PTD_ITEM_BLOCK:
            return self._image.function(raw.ip, raw.cr3)
        at = self.to_ip if self.to_ip is not None else self.from_ip
        return None if at is None else self._image.function(at, raw.cr3)

    @property
    def time(self):
        """The TSC value, never less than that of an item before; None: no packet told one yet."""
        return None if self._point.tsc == lib.PTD_TIME_UNKNOWN else self._point.tsc

    @property
    def interval(self):
        """The earliest and the latest time that it can have been; None for what is not known."""
        point = self._point
        if point.tsc == lib.PTD_TIME_UNKNOWN:
            return None, None
        return point.earliest, None if point.latest == lib.PTD_TIME_UNKNOWN else point.latest

    def __repr__(self):
        at = self.ip if self.ip is not None else self.to_ip
        return f"<{self.type} at {self.offset:#x}" + ("" if at is None else f", {at:#x} {self.function}") + ">"


class Packet:
    """One packet: where it is, what it is called, and a line about it."""

    __slots__ = ("offset", "name", "text")

    def __init__(self, raw):
        line = ffi.new("char[256]")
        lib.ptd_packet_format(raw, line, len(line))
        self.offset = raw.offset
        self.name = ffi.string(lib.ptd_packet_name(raw.type)).decode()
        self.text = ffi.string(line).decode()

    def __repr__(self):
        return f"<{self.text} at {self.offset:#x}>"


class Trace:
    """A trace, and what a decoder must know besides. To iterate over it decodes it from its begin.

    source is bytes, or a function that opens a binary file anew. flow and time are members of struct
    ptd_flow_config and struct ptd_time_config.
    """

    def __init__(self, source, image, flow=None, time=None):
        self.source = source
        self.image = image
        self.flow = dict(flow or {})
        self.time = dict(time or {})

    def _pieces(self):
        if callable(self.source):
            with self.source() as file:
                while piece := file.read(PIECE_BYTES):
                    yield piece
        else:
            for at in range(0, len(self.source), PIECE_BYTES):
                yield self.source[at:at + PIECE_BYTES]

    def __iter__(self):
        image = self.image
        stream = _owned(lib.ptd_stream_new(image._image, ffi.new("struct ptd_flow_config *", self.flow),
                                           ffi.new("struct ptd_time_config *", self.time)),
                        lib.ptd_stream_free)
        pieces = self._pieces()
        while True:
            raw, point = ffi.new("struct ptd_item *"), ffi.new("struct ptd_time_point *")
            result = lib.ptd_stream_next(stream, raw, point)
            if result == lib.PTD_OK:
                yield Item(image, raw, point)
            elif result == lib.PTD_END:
                return
            elif result == lib.PTD_MORE:
                if piece := next(pieces, None):
                    _check(lib.ptd_stream_feed(stream, piece, len(piece)))
                else:
                    lib.ptd_stream_end(stream)
            else:
                raise Error(result)

    def packets(self):
        """The packets. Bytes that are none are passed over, up to the next PSB."""
        content = b"".join(self._pieces())
        buffer = ffi.from_buffer(content)
        packets, raw = ffi.new("struct ptd_packets *"), ffi.new("struct ptd_packet *")
        lib.ptd_packets_init(packets, buffer, len(content))
        lib.ptd_packets_set_errata(packets, self.flow.get("errata", 0))
        while (result := lib.ptd_packets_next(packets, raw)) != lib.PTD_END:
            if result == lib.PTD_OK:
                yield Packet(raw)
            elif lib.ptd_packets_resync(packets) != lib.PTD_OK:
                return


def _number(about, name, default, most):
    value = about.get(name, default)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} of the sidecar is no number up to {most}")
    return value


def _sidecar(path):
    """TRACE.json, or nothing if it is not there. docs/trace-files.md says what it holds."""
    try:
        about = json.loads(_read_regular(path, SIDECAR_BYTES))
    except FileNotFoundError:
        return {}
    if not isinstance(about, dict):
        raise ValueError(f"{path}: it is no object")
    if "rtit" in about:
        raise ValueError(f"{path}: this is a trace of RTIT, which this module does not decode")
    return about


def _file_name(name):
    if not isinstance(name, str) or "\0" in name:
        raise ValueError("the sidecar names a file by what is no name")
    return name


def _images(about):
    """Path, bias and address space of each image."""
    images = about.get("images", [])
    if not isinstance(images, list) or not all(isinstance(one, dict) for one in images):
        raise ValueError("images of the sidecar is no list of objects")
    for one in images:
        cr3 = ANY_CR3 if one.get("cr3") is None else _number(one, "cr3", 0, 2**64 - 1)
        yield _file_name(one.get("path")), _number(one, "bias", 0, 2**64 - 1), cr3


def _settings(about):
    cpu = about.get("cpu", {})
    if not isinstance(cpu, dict):
        raise ValueError("cpu of the sidecar is no object")
    family, model = _number(cpu, "family", 0, 0xffff), _number(cpu, "model", 0, 0xffff)
    mode = about.get("mode", 64)
    ratio = about.get("tsc_ctc", [0, 0])
    if type(mode) is not int or mode not in _MODES or type(ratio) is not list or len(ratio) != 2:
        raise ValueError("mode or tsc_ctc of the sidecar is not what it should be")
    deferred = about.get("deferred_tips")
    if deferred is None:
        resync = lib.ptd_resync_for(family, model)
    else:
        resync = lib.PTD_RESYNC_PSB if deferred else lib.PTD_RESYNC_IP
    errata = lib.ptd_errata(family, model)
    flow = {"mode": _MODES[mode], "errata": errata, "resync": resync}
    time = {
        "tsc_den": _number({"tsc_ctc": ratio[0]}, "tsc_ctc", 0, 2**32 - 1),
        "tsc_num": _number({"tsc_ctc": ratio[1]}, "tsc_ctc", 0, 2**32 - 1),
        "mtc_freq": _number(about, "mtc_freq", 0, 15),
        "max_nonturbo_ratio": _number(about, "max_nonturbo_ratio", 0, 255),
        "errata": errata,
    }
    return flow, time


def open(path, images=()):  # noqa: A001, as in other modules that open files
    """A file of packets as `vpt run --trace-out` and `vpt capture` leave it, with PATH.json beside it.

    images are ELF files that take the place of those in PATH.json: a path, or a path and its bias.
    Names that a names log or a map file says (docs/names.md) are the program's, and not known here.
    """
    path = os.fspath(path)
    about = _sidecar(path + ".json")
    folder = os.path.dirname(path)
    image = Image()
    if images:
        for one in images:
            image.add_elf(*((one,) if isinstance(one, (str, os.PathLike)) else one))
    else:
        for elf, bias, cr3 in _images(about):
            image.add_elf(os.path.join(folder, elf), bias, cr3)
        if code := _file_name(about.get("code", "")):
            image.add_code_log(_read_regular(os.path.join(folder, code), FILE_BYTES))
    flow, time = _settings(about)
    os.close(_open_regular(path))
    return Trace(lambda: os.fdopen(_open_regular(path), "rb"), image, flow, time)
