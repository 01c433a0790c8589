"""Figures of matplotlib: shown or left open they become PNG files in a
folder of ours; what the program saves itself is noted. Loaded when matplotlib
is first imported; runs inside runner.py's own scope. Nothing here stands between
the program and matplotlib's functions for longer than a look, so that
tracebacks stay those of the program."""

STORE = "__sandbox__"
RASTER = (".png", ".jpg", ".jpeg", ".gif", ".webp")
FIGURES_MAX = 40

# Families with Chinese, Japanese and Korean glyphs, the widest first.
CJK = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR",
       "Noto Sans CJK TC", "Source Han Sans SC", "Source Han Sans",
       "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback",
       "Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "SimHei",
       "Microsoft YaHei", "PingFang SC", "Arial Unicode MS", "IPAexGothic",
       "IPAGothic", "TakaoGothic", "VL Gothic", "NanumGothic", "UnDotum",
       "Baekmuk Dotum", "AR PL UMing CN", "Unifont")


class Plot:
    """What is known of one figure."""

    def __init__(self, seen):
        self.seen = seen	# when it was first noticed
        self.live = None	# path of the last capture
        self.digest = None
        self.saved = []		# raster files that the program wrote of it


class Plots:
    def __init__(self):
        import weakref
        self.known = weakref.WeakKeyDictionary()
        self.moving = weakref.WeakKeyDictionary()	# animations
        self.count = 0
        self.gone = []

    def now(self):
        return (time.time_ns() - START_NS) // 1000

    def notice(self):
        """Gives all open figures their place in the order of creation."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        managers = list(helpers.Gcf.figs.values()) if helpers else []
        figures = [m.canvas.figure
                   for m in sorted(managers, key=lambda m: str(m.num)
                                   if isinstance(m.num, str)
                                   else "%09d" % m.num)]
        for figure in figures:
            self.of(figure)
        return figures

    def of(self, figure):
        if figure not in self.known:
            self.known[figure] = Plot(self.now() + len(self.known))
        return self.known[figure]

    def saving(self, canvas, caller):
        """The program is about to save a figure."""
        figure = canvas.figure
        self.notice()
        plot = self.of(figure)
        names = caller.f_locals
        if caller.f_code.co_name != "savefig" or "fname" not in names:
            return
        path = os.path.abspath(os.fspath(names["fname"]))
        kind = os.path.splitext(path)[1].lower()
        if not kind:
            import matplotlib
            kind = "." + matplotlib.rcParams["savefig.format"]
            path += kind
        named = (names.get("kwargs") or {}).get("format")
        kind = "." + named.lower() if named else kind
        if kind in RASTER and path.startswith(HOME + "/"):
            plot.saved.append(path)
            if plot.live and not figure.stale:
                self.gone.append((path, plot.live))
                plot.live = None
            CHILD.after("record", "saved", path=path[len(HOME) + 1:],
                        seen=plot.seen)

    def capture(self, figure):
        """Draws a figure into a file unless that was done already."""
        plot = self.of(figure)
        if plot.digest is not None and not figure.stale:
            return
        if plot.digest is None and any(map(os.path.exists, plot.saved)):
            return
        if self.count >= FIGURES_MAX:
            CHILD.after("record", "lost", path="figure", size=0, at=0,
                        why="more than %d figures" % FIGURES_MAX)
            return
        if plot.digest is None and figure in self.moving:
            last_frame(self.moving[figure]())
        data, scaled = drawn(figure)
        if plot.digest == hash(data):
            return
        plot.digest = hash(data)
        self.count += 1
        os.makedirs(HOME + "/" + STORE, exist_ok=True)
        plot.live = "%s/figure-%d.png" % (STORE, self.count)
        CHILD.after("record", "figure", path=plot.live, seen=plot.seen,
                    at=self.now(), scaled=scaled)
        with open(HOME + "/" + plot.live, "wb") as f:
            f.write(data)

    def safely(self, figure):
        try:
            self.capture(figure)
        except Exception as e:
            CHILD.after("record", "lost", path="figure", size=0, at=0,
                        why="it could not be drawn: %s: %s"
                        % (type(e).__name__, str(e)[:300]))

    def show_value(self, value):
        """Captures a figure, or that of axes, which is the value of the last
        expression; False when it is none."""
        from matplotlib.axes import Axes
        from matplotlib.figure import FigureBase
        if isinstance(value, Axes):
            value = value.figure
        if not isinstance(value, FigureBase):
            return False
        self.notice()
        self.safely(getattr(value, "figure", None) or value)
        return True

    def end(self):
        for figure in self.notice():
            self.safely(figure)
        for path, live in self.gone:
            if os.path.exists(path) and os.path.exists(HOME + "/" + live):
                os.unlink(HOME + "/" + live)


def last_frame(animation):
    """Brings an animation to its last frame, as far as a second allows."""
    if animation is None:
        return
    until = time.monotonic() + 1
    animation._draw_was_started = True
    animation._init_draw()
    for frame in animation.new_saved_frame_seq():
        animation._pre_draw(frame, False)
        animation._draw_frame(frame)
        if time.monotonic() > until:
            break


def set_animation(module):
    """Notes which figure an animation belongs to, and into which file it was
    saved."""
    import weakref
    animation = module.Animation
    init, save = animation.__init__, animation.save

    def __init__(self, fig, *args, **kwargs):
        PLOTS.moving[fig] = weakref.ref(self)
        init(self, fig, *args, **kwargs)

    def save_noted(self, filename, *args, **kwargs):
        save(self, filename, *args, **kwargs)
        path = os.path.abspath(os.fspath(filename))
        if os.getpid() == CHILD.pid and path.lower().endswith(RASTER):
            PLOTS.notice()
            plot = PLOTS.of(self._fig)
            plot.saved.append(path)
            CHILD.after("record", "saved", path=path[len(HOME) + 1:],
                        seen=plot.seen)

    for name, new, old in (("__init__", __init__, init),
                           ("save", save_noted, save)):
        new.__doc__, new.__wrapped__ = old.__doc__, old
        setattr(animation, name, new)


def animation_spec(name, path):
    """The spec of the module, with a loader that sets it up."""
    from importlib.machinery import PathFinder
    spec = PathFinder.find_spec(name, path)
    if spec is not None:
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            set_animation(module)

        spec.loader.exec_module = exec_module
    return spec


def drawn(figure):
    """The PNG of a figure; at a lower resolution, and 1, when it would be
    too large."""
    import io
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    data, before, dpi = io.BytesIO(), figure.canvas, figure.dpi
    scale = SIDE / (max(figure.get_size_inches()) * dpi)
    try:
        if scale < 1:
            figure.dpi = dpi * scale
        canvas = before
        if not isinstance(before, FigureCanvasAgg):
            canvas = FigureCanvasAgg(figure)
        if matplotlib.rcParams["savefig.bbox"] is None:
            canvas.print_png(data)
        else:
            figure.savefig(data, format="png", dpi=figure.dpi)
    finally:
        if scale < 1:
            figure.dpi = dpi
        if figure.canvas is not before:
            figure.set_canvas(before)
        figure.stale = False
    return data.getvalue(), int(scale < 1)


class Saves:
    """Stands for FigureCanvasBase.print_figure: tells that it is wanted, and
    hands out the real one."""

    def __init__(self, function):
        self.function = function

    def __get__(self, canvas, owner=None):
        if canvas is None:
            return self.function
        if os.getpid() == CHILD.pid:
            try:
                PLOTS.saving(canvas, sys._getframe(1))
            except Exception:
                pass
        return self.function.__get__(canvas, owner)


def show(self, *args, **kwargs):
    if os.getpid() == CHILD.pid:
        PLOTS.notice()
        PLOTS.safely(self.canvas.figure)


def set_backend(matplotlib):
    params = getattr(matplotlib, "rcParams", None)
    if params is None or not hasattr(matplotlib, "use"):
        return False
    if not isinstance(dict.__getitem__(params, "backend"), str):
        params["backend"] = "agg"
    return True


def set_show(bases):
    if not hasattr(bases, "FigureManagerBase"):
        return False
    canvas = bases.FigureCanvasBase
    canvas.print_figure = Saves(canvas.__dict__["print_figure"])
    bases.FigureManagerBase.show = show
    return True


def set_fonts(fonts):
    """Adds glyphs for Chinese, Japanese and Korean where a font has them."""
    if not hasattr(fonts, "fontManager"):
        return False
    import warnings
    warnings.filterwarnings("ignore", message="Glyph .* missing from")
    fonts._log.addFilter(lambda record: not str(record.msg).startswith(
        "findfont"))
    there = {f.name: f.fname for f in reversed(fonts.fontManager.ttflist)}
    paths = [there[name] for name in CJK if name in there][:3]
    find = getattr(fonts.FontManager, "_find_fonts_by_props", None)
    if find is None or not paths:
        return True

    def find_fonts(self, *args, **kwargs):
        found = find(self, *args, **kwargs)
        return found + [path for path in paths if path not in found]

    fonts.FontManager._find_fonts_by_props = find_fonts
    return True


def set_glyphs(helpers):
    if not hasattr(helpers, "warn_on_missing_glyph"):
        return False
    helpers.warn_on_missing_glyph = lambda *args: None
    return True


class PlotFinder:
    """Looks, whenever something of matplotlib is imported, whether a part
    that is to be changed has arrived."""

    def __init__(self):
        self.wanted = {
            "matplotlib": set_backend,
            "matplotlib.backend_bases": set_show,
            "matplotlib.font_manager": set_fonts,
            "matplotlib._text_helpers": set_glyphs,
        }

    def find_spec(self, name, path=None, target=None):
        if name == "matplotlib.animation":
            return animation_spec(name, path)
        if name.startswith("matplotlib.") or name == "PIL":
            if name == "matplotlib.backends.backend_agg":
                sys.modules.get("matplotlib._text_helpers") or __import__(
                    "matplotlib._text_helpers")
            for known in list(self.wanted):
                module = sys.modules.get(known)
                if module is not None and self.wanted[known](module):
                    del self.wanted[known]
        return None


PLOTS = Plots()
plot_end = PLOTS.end
