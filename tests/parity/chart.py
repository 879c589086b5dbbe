"""chart.py: curves that ought to be one, as an SVG: their values above, how far they are apart below."""
import math

WIDTH, LEFT, RIGHT = 760, 64, 24
# Tops and heights of the two panels.
ABOVE, BELOW, HEIGHT = (56, 300), (414, 110), 580
INK, FAINT, GRID = "#24292f", "#57606a", "#d8dee4"
OURS, THEIRS, GAP = "#0969da", "#cf4a00", "#6e40c9"


class Panel:
    """Values to places, with a grid."""

    def __init__(self, top_and_height, x_range, y_range):
        self.top, self.height = top_and_height
        self.x_range, self.y_range = x_range, y_range

    def x(self, value):
        low, high = self.x_range
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.y_range
        return self.top + (high - min(max(value, low), high)) / (high - low) * self.height

    def grid(self, ys, label):
        for value in ys:
            at = self.y(value)
            yield f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="{GRID}"/>'
            yield text(LEFT - 8, at + 4, label(value), "end", FAINT)

    def steps(self):
        for value in ticks(*self.x_range, 6):
            yield text(self.x(value), self.top + self.height + 18, f"{value:g}", "middle", FAINT)

    def line(self, points, colour, dashes="", width=1.5):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return (f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" '
                f'stroke-linejoin="round" stroke-dasharray="{dashes}"/>')

    def dots(self, points, colour, radius, fill):
        return [f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="{radius}" fill="{fill}" stroke="{colour}" '
                f'stroke-width="1.5"/>' for x, y in points]


def text(x, y, what, anchor="start", colour=INK, size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{what}</text>'


def ticks(low, high, count):
    """Round values, about `count` of them."""
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= count)
    first = math.ceil(low / step)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def legend(entries):
    out, x, y = [], LEFT, 36
    for name, colour, dashes, dot in entries:
        if x > LEFT and x + 28 + 7 * len(name) > WIDTH:
            x, y = LEFT, y + 18
        if dot:
            out.append(f'<circle cx="{x + 10}" cy="{y}" r="4" fill="{colour if dot == "full" else "white"}" '
                       f'stroke="{colour}" stroke-width="1.5"/>')
        else:
            out.append(f'<line x1="{x}" y1="{y}" x2="{x + 22}" y2="{y}" stroke="{colour}" stroke-width="2" '
                       f'stroke-dasharray="{dashes}"/>')
        out.append(text(x + 28, y + 4, name))
        x += 46 + 7 * len(name)
    return out


def begin(title, height):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>', text(LEFT, 20, title, size=15)]


def end(path, lines, height):
    lines.append(text(WIDTH - RIGHT, height - 16, "step", "end", FAINT))
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n</svg>\n")


def draw(path, title, ours, theirs, ours_val, theirs_val):
    """Each a dict of losses by step."""
    steps = sorted(ours)
    values = [*ours.values(), *theirs.values()]
    margin = 0.05 * (max(values) - min(values))
    upper = Panel(ABOVE, (0, steps[-1]), (min(values) - margin, max(values) + margin))
    apart = {step: abs(ours[step] - theirs[step]) / theirs[step] for step in steps}
    found = [value for value in apart.values() if value > 0] or [1e-8]
    decades = (math.floor(math.log10(min(found))), math.ceil(math.log10(max(found) * 1.01)))
    lower = Panel(BELOW, upper.x_range, decades)
    lines = begin(title, HEIGHT)
    lines += legend([("lockstep", OURS, "", ""), ("PyTorch", THEIRS, "5 4", ""), ("validation, lockstep", OURS, "", "full"),
                     ("validation, PyTorch", THEIRS, "", "ring")])
    lines += upper.grid(ticks(*upper.y_range, 6), lambda value: f"{value:g}")
    lines += upper.steps()
    lines.append(upper.line(sorted(ours.items()), OURS))
    lines.append(upper.line(sorted(theirs.items()), THEIRS, "5 4"))
    lines += upper.dots(sorted(ours_val.items()), OURS, 3, OURS)
    lines += upper.dots(sorted(theirs_val.items()), THEIRS, 6, "none")
    lines.append(text(LEFT, BELOW[0] - 12, "difference of the training losses, relative"))
    lines += lower.grid(range(decades[0], decades[1] + 1), lambda value: f"1e{value}")
    lines += lower.steps()
    lines.append(lower.line([(step, math.log10(max(apart[step], 1e-30))) for step in steps], GAP, width=1))
    end(path, lines, HEIGHT)


def draw_against(path, title, curves, most):
    """Curves (name, colour, dashes, values by step), and below by how much each is above the first, in percent up to `most`."""
    top, height, low_top, low_height, whole = 74, 250, 372, 150, 570
    values = [value for curve in curves for value in curve[3].values()]
    margin = 0.05 * (max(values) - min(values))
    last, first = max(curves[0][3]), curves[0][3]
    upper = Panel((top, height), (0, last), (min(values) - margin, max(values) + margin))
    lower = Panel((low_top, low_height), (0, last), (-1, most))
    lines = begin(title, whole) + legend([(name, colour, dashes, "") for name, colour, dashes, _ in curves])
    lines += upper.grid(ticks(*upper.y_range, 6), lambda value: f"{value:g}")
    lines += upper.steps()
    lines.append(text(LEFT, low_top - 12, f"above {curves[0][0]}, percent"))
    lines += lower.grid(ticks(-1, most, 6), lambda value: f"{value:g}")
    lines += lower.steps()
    for _, colour, dashes, found in curves:
        lines.append(upper.line(sorted(found.items()), colour, dashes))
        above = [(step, 100 * (found[step] / first[step] - 1)) for step in sorted(found) if step in first]
        lines.append(lower.line(above, colour, dashes))
    end(path, lines, whole)
