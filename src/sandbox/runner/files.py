"""The working folder after the program: names that the sandbox would lose
are changed for the way, links are taken out, and all new files are listed.
Runs in the parent, when the program has ended."""

CACHES = {".cache", ".config", ".local", ".matplotlib", ".ipython", ".sandbox",
          ".fontconfig", ".keras", ".nv", ".jupyter", "__pycache__"}
STORE = "__sandbox__"
FILES_MAX = 300
DEPTH_MAX = 40


def quoted(name):
    """A JSON string of ASCII characters for a name of any bytes."""
    out = []
    for c in os.fsencode(name).decode("utf-8", "backslashreplace"):
        o = ord(c)
        if 0x20 <= o < 0x7f and c not in '"\\':
            out.append(c)
        elif o < 0x10000:
            out.append("\\u%04x" % o)
        else:
            o -= 0x10000
            out.append("\\u%04x\\u%04x" % (0xd800 + (o >> 10),
                                           0xdc00 + (o & 0x3ff)))
    return '"' + "".join(out) + '"'


class Survey:
    def __init__(self):
        self.lines = []
        self.count = 0
        self.moved = 0

    def add(self, kind, path, info, extra=""):
        self.count += 1
        if self.count > FILES_MAX:
            return
        at = (info.st_mtime_ns - START_NS) // 1000 if info else 0
        self.lines.append('{"t":"%s","path":%s,"size":%d,"at":%d%s}' % (
            kind, quoted(path), info.st_size if info else 0, at, extra))

    def lost(self, path, info, why):
        self.add("lost", path, info, ',"why":"%s"' % why)

    def walk(self, folder, depth, hidden):
        try:
            entries = sorted(os.scandir(HOME + "/" + folder),
                             key=lambda e: e.name)
        except OSError:
            return
        for entry in entries:
            if self.count < 4 * FILES_MAX:
                self.entry(entry, folder + entry.name, depth, hidden)

    def entry(self, entry, path, depth, hidden):
        try:
            info = entry.stat(follow_symlinks=False)
            if entry.is_symlink():
                self.link(entry, path, info)
            elif entry.is_dir(follow_symlinks=False):
                self.folder(entry, path, depth, hidden)
            elif entry.is_file(follow_symlinks=False):
                self.file(entry, path, info, hidden)
        except OSError:
            self.lost(path, None, "it could not be read")

    def link(self, entry, path, info):
        """The sandbox follows links outside of the jail."""
        os.unlink(entry.path)
        self.lost(path, info, "it was a symbolic link")

    def folder(self, entry, path, depth, hidden):
        name = entry.name
        if name == STORE and not depth or name in CACHES:
            return
        if depth >= DEPTH_MAX:
            self.lost(path, None, "it lies too deep")
            self.away(entry)
            return
        odd = name[0] == "." or not plain(name)
        self.walk(path + "/", depth + 1, hidden or odd)
        if not plain(name):
            self.away(entry)

    def away(self, entry):
        """Hides a folder that would spoil the collection."""
        os.makedirs(HOME + "/.sandbox-away", exist_ok=True)
        self.moved += 1
        os.rename(entry.path, HOME + "/.sandbox-away/%d" % self.moved)

    def file(self, entry, path, info, hidden):
        changed = max(info.st_mtime_ns, info.st_ctime_ns) >= START_NS
        name = entry.name
        if path in INPUTS:
            changed = INPUTS[path] != (info.st_mtime_ns, info.st_size,
                                       info.st_ino)
            if not changed:
                # else the sandbox would take it for a result
                os.unlink(entry.path)
        if not changed or path == "main.py" or name.endswith(".pyc"):
            return
        if not hidden and name[0] not in "_." and plain(name):
            self.add("file", path, info)
            return
        os.makedirs(HOME + "/" + STORE, exist_ok=True)
        self.moved += 1
        safe = "%s/file-%d" % (STORE, self.moved)
        os.rename(entry.path, HOME + "/" + safe)
        self.add("file", path, info, ',"safe":"%s"' % safe)


def plain(name):
    try:
        return "\n" not in name and bool(name.encode())
    except UnicodeEncodeError:
        return False


def survey(stack):
    look = Survey()
    look.walk("", 0, False)
    lines = look.lines
    if look.count > FILES_MAX:
        lines.append('{"t":"more","count":%d}' % (look.count - FILES_MAX))
    if stack:
        text = "\n".join(stack)[:8000]
        lines.insert(0, '{"t":"stack","text":%s}' % quoted(text))
    return [line.encode() for line in lines]
