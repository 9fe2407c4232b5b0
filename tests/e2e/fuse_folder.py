# SPDX-License-Identifier: Apache-2.0
"""A folder mounted through FUSE onto another: a real file system that is none of those
on which a WAL is safe. Speaks the kernel's protocol itself (Linux, root, /dev/fuse);
one thread, no cache. Locks are the kernel's.

    with mounted(lower, point): ...
"""
import contextlib
import ctypes
import errno
import os
import stat
import struct
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
HEAD_IN, HEAD_OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
ATTR = struct.Struct("<QQQQQQIIIIIIIIII")
LOOKUP, FORGET, GETATTR, SETATTR, MKDIR, UNLINK, RMDIR, RENAME, LINK = 1, 2, 3, 4, 9, 10, 11, 12, 13
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT = 14, 15, 16, 17, 18, 20, 25, 26
OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, CREATE, DESTROY = 27, 28, 29, 30, 35, 38
BATCH_FORGET, RENAME2 = 42, 45
SILENT = (FORGET, BATCH_FORGET)


class Server:
    """Answers requests until the file system is unmounted."""

    def __init__(self, lower, device):
        self.device = device
        self.paths = {1: str(lower)}
        self.ids = {}
        self.files = {}

    def node(self, path):
        st = os.lstat(path)
        key = (st.st_dev, st.st_ino)
        number = self.ids.setdefault(key, len(self.ids) + 2)
        self.paths[number] = path
        return number, st

    @staticmethod
    def attr(number, st):
        return ATTR.pack(number, st.st_size, st.st_blocks, int(st.st_atime), int(st.st_mtime),
                         int(st.st_ctime), st.st_atime_ns % 10**9, st.st_mtime_ns % 10**9,
                         st.st_ctime_ns % 10**9, st.st_mode, st.st_nlink, st.st_uid, st.st_gid, 0,
                         4096, 0)

    def entry(self, path):
        number, st = self.node(path)
        return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self.attr(number, st)

    def attributes(self, number, fd=None):
        st = os.fstat(fd) if fd is not None else os.lstat(self.paths[number])
        return struct.pack("<QII", 0, 0, 0) + self.attr(number, st)

    def getattr(self, node, body):
        fh = struct.unpack_from("<Q", body, 8)[0] if body[0] & 1 else None
        return self.attributes(node, self.files.get(fh))

    def child(self, node, name):
        return os.path.join(self.paths[node], os.fsdecode(name.rstrip(b"\0")))

    def opened(self, fd):
        self.files[fd] = fd
        return struct.pack("<QII", fd, 1, 0)  # direct I/O: nothing is cached

    def setattr(self, node, body):
        valid, _, fh, size, _, atime, mtime, _, ans, mns, _, mode, _, uid, gid = struct.unpack_from(
            "<IIQQQQQQIIIIIII", body)
        path = self.paths[node]
        if valid & 8:
            os.truncate(self.files.get(fh, path) if valid & 64 else path, size)
        if valid & 1:
            os.chmod(path, stat.S_IMODE(mode))
        if valid & 6:
            os.chown(path, uid if valid & 2 else -1, gid if valid & 4 else -1)
        if valid & 0x30 and not valid & 0x180:
            os.utime(path, ns=(atime * 10**9 + ans, mtime * 10**9 + mns))
        return self.attributes(node)

    def readdir(self, node, body):
        offset, size = struct.unpack_from("<QI", body, 8)
        out = b""
        for i, name in enumerate(sorted([".", "..", *os.listdir(self.paths[node])])):
            raw = os.fsencode(name)
            one = struct.pack("<QQII", 1, i + 1, len(raw), 0) + raw
            one += b"\0" * (-len(one) % 8)
            if i < offset:
                continue
            if len(out) + len(one) > size:
                break
            out += one
        return out

    def rename(self, node, body, at):
        to = struct.unpack_from("<Q", body)[0]
        old, new = body[at:].split(b"\0")[:2]
        os.rename(self.child(node, old), self.child(to, new))
        path = self.child(to, new)
        self.node(path)
        return b""

    def write(self, body):
        fh, offset, size = struct.unpack_from("<QQI", body)
        return struct.pack("<II", os.pwrite(fh, body[40:40 + size], offset), 0)

    def statfs(self, node):
        st = os.statvfs(self.paths[node])
        return struct.pack("<QQQQQIIII24x", st.f_blocks, st.f_bfree, st.f_bavail, st.f_files,
                           st.f_ffree, st.f_bsize, 255, st.f_frsize, 0)

    def create(self, node, body):
        flags, mode = struct.unpack_from("<II", body)
        path = self.child(node, body[16:])
        fd = os.open(path, flags & ~os.O_DIRECT | os.O_CLOEXEC, stat.S_IMODE(mode))
        return self.entry(path) + self.opened(fd)

    def open(self, node, body):
        flags = struct.unpack_from("<I", body)[0] & ~(os.O_CREAT | os.O_EXCL | os.O_DIRECT)
        return self.opened(os.open(self.paths[node], flags | os.O_CLOEXEC))

    def mkdir(self, node, body):
        path = self.child(node, body[8:])
        os.mkdir(path, stat.S_IMODE(struct.unpack_from("<I", body)[0]))
        return self.entry(path)

    def link(self, node, body):
        path = self.child(node, body[8:])
        os.link(self.paths[struct.unpack_from("<Q", body)[0]], path)
        return self.entry(path)

    def release(self, body):
        os.close(self.files.pop(struct.unpack_from("<Q", body)[0]))
        return b""

    def do(self, opcode, node, body):
        calls = {
            INIT: lambda: struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 16, 12, 65536, 1, 0,
                                      0, 0),
            LOOKUP: lambda: self.entry(self.child(node, body)),
            GETATTR: lambda: self.getattr(node, body),
            SETATTR: lambda: self.setattr(node, body),
            MKDIR: lambda: self.mkdir(node, body),
            UNLINK: lambda: os.unlink(self.child(node, body)) or b"",
            RMDIR: lambda: os.rmdir(self.child(node, body)) or b"",
            RENAME: lambda: self.rename(node, body, 8),
            RENAME2: lambda: self.rename(node, body, 16),
            LINK: lambda: self.link(node, body),
            OPEN: lambda: self.open(node, body),
            READ: lambda: os.pread(*(struct.unpack_from("<QQI", body)[i] for i in (0, 2, 1))),
            WRITE: lambda: self.write(body),
            STATFS: lambda: self.statfs(node),
            RELEASE: lambda: self.release(body),
            FSYNC: lambda: os.fsync(struct.unpack_from("<Q", body)[0]) or b"",
            FLUSH: lambda: b"",
            OPENDIR: lambda: struct.pack("<QII", 0, 0, 0),
            READDIR: lambda: self.readdir(node, body),
            RELEASEDIR: lambda: b"",
            FSYNCDIR: lambda: b"",
            CREATE: lambda: self.create(node, body),
            DESTROY: lambda: b"",
        }
        if opcode not in calls:
            raise OSError(errno.ENOSYS, "")
        return calls[opcode]()

    def run(self):
        while True:
            try:
                request = os.read(self.device, 1 << 18)
            except OSError as e:
                if e.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # unmounted
            _, opcode, unique, node, *_ = HEAD_IN.unpack_from(request)
            if opcode in SILENT:
                continue
            try:
                answer, error = self.do(opcode, node, request[HEAD_IN.size:]), 0
            except OSError as e:
                answer, error = b"", -(e.errno or errno.EIO)
            except (KeyError, struct.error):
                answer, error = b"", -errno.ESTALE
            with contextlib.suppress(OSError):
                head = HEAD_OUT.pack(HEAD_OUT.size + len(answer), error, unique)
                os.write(self.device, head + answer)


def why_not():
    """Why it cannot be had here; "" if it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    return "" if os.access("/dev/fuse", os.R_OK | os.W_OK) else "no /dev/fuse"


@contextlib.contextmanager
def mounted(lower, point):
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
    if LIBC.mount(b"folder", os.fsencode(point), b"fuse", 0, options.encode()) != 0:
        number = ctypes.get_errno()
        os.close(device)
        raise OSError(number, f"mount: {os.strerror(number)}")
    thread = threading.Thread(target=Server(lower, device).run, daemon=True)
    thread.start()
    try:
        yield point
    finally:
        LIBC.umount2(os.fsencode(point), 2)
        thread.join(5)
        os.close(device)
